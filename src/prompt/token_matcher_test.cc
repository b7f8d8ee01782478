#include "prompt/token_matcher.h"

#include <gtest/gtest.h>

namespace kvern::prompt {
namespace {

TEST(TokenMatcher, FindsTheLeftmostAndThereTheLongest) {
  TokenMatcher matcher;
  EXPECT_EQ(matcher.find("anything", 0).bytes, 0U);
  matcher.add("<a>", 1);
  matcher.add("<a><b>", 2);
  matcher.add("b", 3);
  const TokenMatcher::Match longest = matcher.find("x<a><b>", 0);
  EXPECT_EQ(longest.at, 1U);
  EXPECT_EQ(longest.token, 2);
  EXPECT_EQ(matcher.find("x<a><c>", 0).token, 1);
  EXPECT_EQ(matcher.find("x<a", 0).bytes, 0U);
  EXPECT_EQ(matcher.find("<a>b", 1).token, 3);
  matcher.add("b", 9);
  EXPECT_EQ(matcher.find("b", 0).token, 3);
}

}  // namespace
}  // namespace kvern::prompt
