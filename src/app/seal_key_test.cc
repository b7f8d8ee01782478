#include "app/seal_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/testing/temp_folder.h"

namespace kvern::app {
namespace {

namespace fs = std::filesystem;

class SealKeyFile : public testing::Test {
 protected:
  std::string state() const { return (folder_ / "a/state").string(); }
  fs::path made() const { return folder_ / "a/state/seal.key"; }
  std::string write(const std::string& text) const {
    std::ofstream(folder_ / "key") << text;
    return (folder_ / "key").string();
  }

  const TempFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(SealKeyFile, IsMadeOnceForItsOwnerAlone) {
  const auto first = load_seal_key({}, state());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->warning, "");
  EXPECT_EQ(fs::status(made()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(state()), {}), 1) << "no draft is left";
  const auto second = load_seal_key({}, state());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->key.reveal(), first->key.reveal());
}

TEST_F(SealKeyFile, WhoStartsTogetherGetsOneKey) {
  std::vector<std::string> keys(8);
  std::vector<std::thread> threads;
  for (std::string& key : keys) threads.emplace_back([&] { key = load_seal_key({}, state())->key.reveal(); });
  for (auto& thread : threads) thread.join();
  for (const std::string& key : keys) EXPECT_EQ(key, keys[0]);
}

TEST_F(SealKeyFile, ANamedOneWins) {
  const auto named = load_seal_key(write(std::string(62, '0') + "ff\n"), state());
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->key.reveal(), std::string(31, '\0') + '\xFF');
  EXPECT_FALSE(fs::exists(made()));
}

TEST_F(SealKeyFile, WhatIsNoKeyIsSaid) {
  for (const char* text : {"", "00", "zz", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg"}) {
    const auto key = load_seal_key(write(text), {});
    ASSERT_FALSE(key.ok());
    EXPECT_NE(key.error().message.find("64 hex digits"), std::string::npos);
  }
  EXPECT_FALSE(load_seal_key((folder_ / "nothing").string(), {}).ok());
}

TEST_F(SealKeyFile, OneThatOthersMayReadIsRefused) {
  ASSERT_TRUE(load_seal_key({}, state()).ok());
  fs::permissions(made(), fs::perms::group_read, fs::perm_options::add);
  const auto key = load_seal_key({}, state());
  ASSERT_FALSE(key.ok());
  EXPECT_NE(key.error().message.find("chmod 600"), std::string::npos);
}

TEST_F(SealKeyFile, WithoutAPlaceItLivesAsLongAsTheProcess) {
  write("a file, no folder");
  for (const std::string& place : {std::string(), (folder_ / "key").string()}) {
    const auto key = load_seal_key({}, place);
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(key->key.reveal().size(), 32U);
    EXPECT_NE(key->warning, "");
  }
}

}  // namespace
}  // namespace kvern::app
