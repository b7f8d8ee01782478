#include "app/store/response_tables.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/rng.h"
#include "base/testing/temp_folder.h"

namespace kvern::app {
namespace {

using pipeline::StoredResponse;
using std::chrono::seconds;

class ResponseTablesTest : public ::testing::Test {
 protected:
  Error reopen() {
    tables_.reset();
    auto opened = ResponseTables::open(path_, bounds_);
    if (!opened) return opened.error();
    tables_ = *std::move(opened);
    return {};
  }
  void opened() { ASSERT_EQ(reopen().message, ""); }
  void put(const StoredResponse& response, seconds now = seconds(1000)) {
    ASSERT_TRUE(tables_->begin().ok());
    ASSERT_TRUE(tables_->put(response, now).ok());
    ASSERT_TRUE(tables_->commit().ok());
  }
  std::size_t trim(seconds now = seconds(1000)) {
    std::size_t steps = 0;
    for (;; ++steps) {
      const auto more = tables_->trim(now);
      EXPECT_TRUE(more.ok());
      if (!more.ok() || !*more) return steps;
    }
  }
  bool has(std::uint64_t id) { return tables_->find("t", RequestId{id}).ok(); }
  /// What an outsider would find wrong with the file.
  static std::string integrity(const std::string& path) {
    auto database = Database::open(path);
    EXPECT_TRUE(database.ok());
    const auto answer = database->ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'");
    return answer.ok() && *answer == 0 ? "ok" : database->words();
  }

  static StoredResponse turn(std::uint64_t id, std::optional<std::uint64_t> previous = {}, std::size_t bytes = 10) {
    StoredResponse out{RequestId{id}, "t", {}, false, "[\"in\"]", std::string(bytes, 'a'), "", 0};
    if (previous) out.previous = RequestId{*previous};
    return out;
  }

  const TempFolder folder_;
  std::string path_ = folder_.path() + "/deep/responses.db";
  StoreBounds bounds_;
  std::unique_ptr<ResponseTables> tables_;
};

TEST_F(ResponseTablesTest, KeepsWhatItIsGivenExactly) {
  opened();
  const StoredResponse odd{RequestId{~0ULL},           "tenant'; --",          RequestId{1ULL << 63U}, true,
                           std::string("[\"\0\"]", 5), "{\"é\": \"\\ud800\"}", "event: x\n\n",         7};
  put(odd);
  opened();
  const auto found = tables_->find("tenant'; --", odd.id);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, odd);
}

TEST_F(ResponseTablesTest, AnotherTenantsResponseIsNotThere) {
  opened();
  put(turn(1));
  EXPECT_EQ(tables_->find("u", RequestId{1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(tables_->history("u", RequestId{1}, 1000).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(tables_->erase("u", RequestId{1}).error().code, ErrorCode::kNotFound);
  auto theirs = turn(2, 1);
  theirs.tenant = "u";
  put(theirs);  // its history stays closed
  EXPECT_EQ(tables_->history("u", RequestId{2}, 1000).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(has(1));
}

TEST_F(ResponseTablesTest, HistoryIsTheWayFromTheFirstTurn) {
  opened();
  put(turn(1));
  put(turn(2, 1));
  put(turn(3, 1));  // a branch
  put(turn(4, 3));
  const auto history = tables_->history("t", RequestId{4}, 1000);
  ASSERT_TRUE(history.ok());
  std::vector<std::uint64_t> ids;
  for (const auto& one : *history) ids.push_back(one.id.value);
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{1, 3, 4}));
  EXPECT_EQ(tables_->history("t", RequestId{4}, 20).error().code, ErrorCode::kTooLarge);
  ASSERT_TRUE(tables_->erase("t", RequestId{3}).ok());
  EXPECT_EQ(tables_->history("t", RequestId{4}, 1000).error().code, ErrorCode::kNotFound) << "a turn is gone";
  EXPECT_TRUE(has(4)) << "and what continued it can still be read";
}

/// Random calls against a plain map, the file opened anew after each.
TEST_F(ResponseTablesTest, AgreesWithAMapOverReopens) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    path_ = folder_.path() + "/" + std::to_string(seed) + ".db";
    Rng rng(seed);
    std::map<std::uint64_t, StoredResponse> model;
    for (int step = 0; step < 40; ++step) {
      opened();
      const std::uint64_t id = 1 + rng.below(20);
      const std::string tenant = rng.below(4) == 0 ? "u" : "t";
      const auto known = model.find(id);
      const bool theirs = known == model.end() || known->second.tenant == tenant;
      switch (rng.below(4)) {
        case 0:
        case 1: {
          StoredResponse one = turn(id, {}, rng.below(9000));
          one.tenant = tenant;
          // As in life, what a turn continues is older and does not change.
          if (known == model.end() && id > 1) one.previous = RequestId{1 + rng.below(id - 1)};
          if (known != model.end()) one.previous = known->second.previous;
          ASSERT_TRUE(tables_->begin().ok());
          const bool taken = tables_->put(one, seconds(step)).ok();
          EXPECT_EQ(taken, theirs);
          const bool kept = rng.below(5) != 0;
          if (kept) {
            ASSERT_TRUE(tables_->commit().ok());
          } else {
            tables_->roll_back();
          }
          if (taken && kept) model[id] = one;
          break;
        }
        case 2: {
          EXPECT_EQ(tables_->erase(tenant, RequestId{id}).ok(), known != model.end() && theirs);
          if (known != model.end() && theirs) model.erase(known);
          break;
        }
        default: trim(seconds(step));
      }
      opened();
      for (std::uint64_t at = 1; at <= 20; ++at) {
        for (const char* who : {"t", "u"}) {
          const auto found = tables_->find(who, RequestId{at});
          const auto expected = model.find(at);
          const bool there = expected != model.end() && expected->second.tenant == who;
          ASSERT_EQ(found.ok(), there) << seed << "/" << step << " id " << at;
          if (there) {
            ASSERT_EQ(*found, expected->second);
          }
        }
      }
    }
    tables_.reset();
    EXPECT_EQ(integrity(path_), "ok");
  }
}

TEST_F(ResponseTablesTest, AgeTakesWholeConversationsSinceTheirLastTurn) {
  bounds_.age_max = seconds(100);
  opened();
  put(turn(1), seconds(1000));
  put(turn(2), seconds(1000));
  put(turn(3, 1), seconds(1090));  // keeps its first turn alive
  trim(seconds(1150));
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3));
  trim(seconds(1191));
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(has(3));
}

TEST_F(ResponseTablesTest, SizeTakesTheConversationUsedLongestAgoInSmallSteps) {
  bounds_.bytes_max = 2'500'000;
  opened();
  for (std::uint64_t id = 1; id <= 40; ++id) put(turn(id, id == 1 ? std::nullopt : std::optional(id - 1), 30'000));
  put(turn(100, {}, 900'000));
  put(turn(41, 40, 10));  // the long one again
  put(turn(101, {}, 900'000));
  EXPECT_GT(trim(), 0U);
  EXPECT_FALSE(has(100));
  EXPECT_TRUE(has(41));
  EXPECT_TRUE(has(101));
  put(turn(102, {}, 900'000));
  const auto more = tables_->trim(seconds(1000));
  ASSERT_TRUE(more.ok() && *more);
  EXPECT_FALSE(has(41)) << "the newest turns go first";
  const auto rest = tables_->history("t", RequestId{20}, 1U << 30U);
  ASSERT_TRUE(rest.ok()) << "and what is left is whole";
  trim();
  EXPECT_TRUE(has(102));
  const auto bytes = tables_->bytes();
  ASSERT_TRUE(bytes.ok());
  EXPECT_LE(*bytes, bounds_.bytes_max);
}

TEST_F(ResponseTablesTest, SizeTakesTheBranchesWrittenLongestAgoAndNoMoreThanItMust) {
  bounds_.bytes_max = 2'500'000;
  opened();
  put(turn(1, {}, 300'000));
  for (std::uint64_t id = 2; id <= 14; ++id) put(turn(id, 1, 300'000));  // one conversation, each turn a branch
  put(turn(3, 1, 300'000));                                              // written again
  EXPECT_GT(trim(), 0U);
  const auto bytes = tables_->bytes();
  ASSERT_TRUE(bytes.ok());
  EXPECT_LE(*bytes, bounds_.bytes_max);
  EXPECT_GT(*bytes, bounds_.bytes_max - 600'000) << "no more than it must";
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3));
  EXPECT_FALSE(has(4));
  EXPECT_TRUE(has(14));
  put(turn(30, {}, 10));  // a small conversation takes no more from the large one
  trim();
  EXPECT_TRUE(has(14));
  EXPECT_TRUE(has(30));
}

TEST_F(ResponseTablesTest, SizeNeverTakesTheTurnWrittenLastNorWhatItContinues) {
  bounds_.bytes_max = 1U << 20U;
  opened();
  for (std::uint64_t id = 1; id <= 5; ++id) put(turn(id, id == 1 ? std::nullopt : std::optional(id - 1), 300'000));
  EXPECT_EQ(trim(), 0U);
  EXPECT_TRUE(tables_->history("t", RequestId{5}, 1U << 30U).ok());
}

TEST_F(ResponseTablesTest, OfTheLastConversationEventsGoFirstSoThatItKeepsNobodyOut) {
  bounds_.bytes_max = 1U << 20U;
  opened();
  for (std::uint64_t id = 1; id <= 5; ++id) {
    StoredResponse one = turn(id, id == 1 ? std::nullopt : std::optional(id - 1), 50'000);
    one.background = true;
    one.events = std::string(300'000, 'e');
    put(one);
  }
  EXPECT_GT(trim(), 0U);
  const auto bytes = tables_->bytes();
  ASSERT_TRUE(bytes.ok());
  EXPECT_LE(*bytes, bounds_.bytes_max);
  EXPECT_TRUE(tables_->history("t", RequestId{5}, 1U << 30U).ok());
  EXPECT_EQ(tables_->find("t", RequestId{1})->events, "");
  EXPECT_EQ(tables_->find("t", RequestId{5})->events.size(), 300'000U);
}

TEST_F(ResponseTablesTest, AConversationThatOutgrowsTheStoreLosesItsNewestTurn) {
  bounds_.bytes_max = 1U << 20U;
  opened();
  for (std::uint64_t id = 1; id <= 6; ++id) put(turn(id, id == 1 ? std::nullopt : std::optional(id - 1), 300'000));
  EXPECT_GT(trim(), 0U);
  EXPECT_FALSE(has(6));
  EXPECT_TRUE(tables_->history("t", RequestId{5}, 1U << 30U).ok());
  put(turn(100, {}, 300'000));  // there is room for others again, and then it is the one used longest ago
  trim();
  EXPECT_TRUE(has(100));
  EXPECT_LE(*tables_->bytes(), bounds_.bytes_max);
}

TEST_F(ResponseTablesTest, TheFileShrinksAgain) {
  bounds_.bytes_max = 64U << 20U;
  bounds_.age_max = seconds(10);
  opened();
  for (std::uint64_t id = 1; id <= 30; ++id) put(turn(id, {}, 1'000'000), seconds(1000));
  trim(seconds(2000));
  tables_.reset();
  EXPECT_LT(std::filesystem::file_size(path_), 4U << 20U);
}

TEST_F(ResponseTablesTest, BeyondTwiceItsRoomNothingMoreIsTaken) {
  bounds_.bytes_max = 1U << 20U;
  opened();
  put(turn(1));
  ASSERT_TRUE(tables_->begin().ok());
  const auto refused = tables_->put(turn(2, {}, 3U << 20U), seconds(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("full"), std::string::npos) << refused.error().message;
  tables_->roll_back();
  EXPECT_TRUE(has(1));
  put(turn(3));
}

TEST_F(ResponseTablesTest, IsForItsOwnerAlone) {
  const mode_t before = umask(0);
  opened();
  put(turn(1));
  umask(before);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    EXPECT_EQ(entry.status().permissions(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << entry.path();
  }
}

TEST_F(ResponseTablesTest, AFileInUseIsNotShared) {
  opened();
  const auto second = ResponseTables::open(path_, bounds_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("another process uses it"), std::string::npos) << second.error().message;
  put(turn(1));
}

TEST_F(ResponseTablesTest, ForeignFilesAreRefusedAndLeftAlone) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  const std::string text = "dear diary, " + std::string(5000, 'x');
  std::ofstream(path_) << text;
  EXPECT_EQ(reopen().code, ErrorCode::kInvalidRequest);
  std::ifstream in(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);

  std::filesystem::remove(path_);
  {
    auto other = Database::open(path_);
    ASSERT_TRUE(other.ok() && other->run("CREATE TABLE recipes(name TEXT)").ok());
  }
  const Error refused = reopen();
  EXPECT_EQ(refused.code, ErrorCode::kInvalidRequest);
  EXPECT_NE(refused.message.find("another program"), std::string::npos) << refused.message;

  std::filesystem::remove(path_);
  opened();
  tables_.reset();
  {
    auto newer = Database::open(path_);
    ASSERT_TRUE(newer.ok() && newer->run("PRAGMA user_version=99").ok());
  }
  EXPECT_NE(reopen().message.find("version 99"), std::string::npos);
}

TEST_F(ResponseTablesTest, AFolderThatCannotBeWrittenIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  chmod(folder_.path().c_str(), S_IRUSR | S_IXUSR);
  EXPECT_EQ(reopen().code, ErrorCode::kUnavailable);
}

/// Bytes of the file are overwritten at random; whatever then is asked is answered or refused, and never crashes.
TEST_F(ResponseTablesTest, DamageIsAnErrorNeverACrash) {
  opened();
  for (std::uint64_t id = 1; id <= 30; ++id) put(turn(id, id == 1 ? std::nullopt : std::optional(id - 1), 3000));
  tables_.reset();
  std::ifstream in(path_, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    std::string damaged = whole;
    if (rng.below(4) == 0) damaged.resize(rng.below(damaged.size()));
    for (std::uint64_t i = 0; i < 1 + rng.below(60) && !damaged.empty(); ++i) {
      damaged[rng.below(damaged.size())] = static_cast<char>(rng.below(256));
    }
    for (const char* beside : {"-wal", "-shm", "-journal"}) std::filesystem::remove(path_ + beside);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
    auto opened = ResponseTables::open(path_, bounds_);
    if (!opened) {
      EXPECT_NE(opened.error().message.find("--responses-file"), std::string::npos);
      continue;
    }
    for (std::uint64_t id = 1; id <= 31; ++id) {
      (void)(*opened)->find("t", RequestId{id});
      (void)(*opened)->history("t", RequestId{id}, 1U << 20U);
    }
    if ((*opened)->begin().ok()) {
      const bool put = (*opened)->put(turn(99, 30, 5000), seconds(1)).ok();
      if (!put || !(*opened)->commit().ok()) (*opened)->roll_back();
    }
    (void)(*opened)->erase("t", RequestId{7});
    for (int i = 0; i < 5; ++i) (void)(*opened)->trim(seconds(1U << 30U));
  }
}

}  // namespace
}  // namespace kvern::app
