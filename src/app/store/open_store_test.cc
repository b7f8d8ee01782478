#include "app/store/open_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temp_folder.h"

namespace kvern::app {
namespace {

class OpenStore : public ::testing::Test {
 protected:
  Result<std::unique_ptr<SqliteResponseStore>> open() { return open_response_store(settings_, clock_, log_, metrics_); }
  /// A place that cannot be used, as whoever the test runs: a file stands where its folder would be.
  std::string unusable() const {
    const std::string file = folder_.path() + "/file";
    std::ofstream(file) << "x";
    return file;
  }

  const TempFolder folder_;
  SystemClock clock_;
  Log log_{LogLevel::kOff};
  Metrics metrics_;
  Settings settings_;
};

TEST_F(OpenStore, LiesInTheStateFolder) {
  settings_.state_dir = folder_.path() + "/state";
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_NE(*store, nullptr);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/state/responses.db"));
}

TEST_F(OpenStore, TheFileThatIsNamedGoesFirst) {
  settings_.state_dir = folder_.path() + "/state";
  settings_.responses_file = folder_.path() + "/named.db";
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(std::filesystem::exists(settings_.responses_file));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/state/responses.db"));
}

TEST_F(OpenStore, OffIsNoStoreAndNoFile) {
  settings_.state_dir = folder_.path() + "/state";
  settings_.responses_file = "off";
  const auto store = open();
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(*store, nullptr);
  EXPECT_FALSE(std::filesystem::exists(settings_.state_dir));
}

TEST_F(OpenStore, APlaceThatWasAskedForAndCannotBeUsedIsAnError) {
  settings_.state_dir = unusable();
  const auto in_folder = open();
  ASSERT_FALSE(in_folder.ok());
  EXPECT_NE(in_folder.error().message.find("--responses-file"), std::string::npos) << in_folder.error().message;
  settings_.state_dir.clear();
  settings_.responses_file = unusable() + "/responses.db";
  EXPECT_FALSE(open().ok());
}

TEST_F(OpenStore, AFileThatIsNoStoreIsAnErrorAndStaysAsItIs) {
  settings_.responses_file = unusable();
  EXPECT_FALSE(open().ok());
  std::string text;
  std::ifstream(settings_.responses_file) >> text;
  EXPECT_EQ(text, "x");
}

}  // namespace
}  // namespace kvern::app
