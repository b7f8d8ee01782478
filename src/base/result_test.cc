#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvern {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 7;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  Result<int> bad = invalid("n", "n is too large");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().param, "n");
}

TEST(Result, MovesOnlyTypes) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(ResultDeath, AskingForTheOtherSideIsABug) {
  Result<int> bad = fail(ErrorCode::kTimeout, "late");
  EXPECT_DEATH(static_cast<void>(*bad), "internal error");
}

TEST(ErrorCode, OnlyTransientCodesAreRetryable) {
  EXPECT_TRUE(retryable(ErrorCode::kOverloaded));
  EXPECT_FALSE(retryable(ErrorCode::kInvalidRequest));
  EXPECT_STREQ(to_string(ErrorCode::kContextLength), "context_length");
}

}  // namespace
}  // namespace kvern
