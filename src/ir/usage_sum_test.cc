#include "ir/usage_sum.h"

#include <gtest/gtest.h>

namespace kvern::ir {
namespace {

TEST(UsageSum, APromptCountsOnceAndEveryChoiceWithWhatItWrote) {
  UsageSum sum(2);
  sum.add(1, {10, 8, 3, 1});  // found what the first choice computed
  EXPECT_EQ(sum.total(), (Usage{0, std::nullopt, 3, 1}));
  sum.add(0, {10, 4, 5, 0});
  EXPECT_EQ(sum.total(), (Usage{10, 4, 8, 1}));
  sum.add(2, {6, 0, 1, 0});  // the first of the second prompt
  sum.add(3, {6, 6, 1, 0});
  EXPECT_EQ(sum.total(), (Usage{16, 4, 10, 1}));
}

TEST(UsageSum, UnknownCachedTokensStayUnknown) {
  UsageSum sum(1);
  sum.add(0, {10, 4, 1, 0});
  sum.add(1, {10, std::nullopt, 1, 0});
  sum.add(2, {10, 4, 1, 0});
  EXPECT_EQ(sum.total().cached_tokens, std::nullopt);
  EXPECT_EQ(sum.total().prompt_tokens, 30U);
}

}  // namespace
}  // namespace kvern::ir
