#include "api/limits.h"

#include <gtest/gtest.h>

#include <set>

namespace kvern::api {
namespace {

TEST(Limits, TheTableIsWhole) {
  std::set<std::string_view> keys;
  for (const LimitRow& row : limit_table()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_GT(row.initial, 0U) << row.key;
    EXPECT_FALSE(row.unit.empty()) << row.key;
  }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(Limit::kCount));
  EXPECT_EQ(Limits()[Limit::kBodyBytes], 32U << 20U);
  EXPECT_EQ(Limits()[Limit::kJsonDepth], 128U);
}

TEST(Limits, CheckNamesTheFieldAndBothNumbers) {
  const Limits limits;
  EXPECT_FALSE(limits.check(Limit::kStopStrings, 4, "stop"));
  const auto fault = limits.check(Limit::kStopStrings, 5, "stop");
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->param, "stop");
  EXPECT_EQ(fault->message, "stop is over its limit of 4 stop strings (has 5)");
  EXPECT_EQ(limits.check(Limit::kBodyBytes, 1ULL << 40U, "")->code, ErrorCode::kTooLarge);
}

TEST(Limits, KeysAreSetAndMisspellingsHelped) {
  Limits limits;
  EXPECT_TRUE(limits.set("tools", 3).ok());
  EXPECT_EQ(limits[Limit::kTools], 3U);
  EXPECT_FALSE(limits.set("tools", 0).ok());
  const auto wrong = limits.set("stop_string", 3);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("did you mean limits.stop_strings?"), std::string::npos);
}

}  // namespace
}  // namespace kvern::api
