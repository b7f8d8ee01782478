#include "base/text.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(Nearest, FindsSlipsOnly) {
  const std::vector<std::string> keys{"host", "port", "log_level", "kv_cache_tokens"};
  EXPECT_EQ(nearest("prot", keys), "port");
  EXPECT_EQ(nearest("loglevel", keys), "log_level");
  EXPECT_EQ(nearest("kv_cache_token", keys), "kv_cache_tokens");
  EXPECT_EQ(nearest("zebra", keys), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

TEST(GlobMatch, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_match("claude-*", "claude-sonnet-4"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(glob_match("gpt-?", "gpt-5"));
  EXPECT_FALSE(glob_match("gpt-?", "gpt-"));
  EXPECT_FALSE(glob_match("a*b", "a-c"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_FALSE(glob_match("*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST(WholeUtf8, NeverCutsInsideACharacter) {
  const std::string text = "a\u00e9\u20ac\U0001F600z";
  std::size_t whole = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::size_t cut = whole_utf8(text.substr(0, length));
    EXPECT_LE(cut, length);
    EXPECT_LE(length - cut, 3U);
    const bool at_border = length == text.size() || (static_cast<unsigned char>(text[length]) & 0xC0U) != 0x80U;
    if (at_border) {
      EXPECT_EQ(cut, length);
      whole = length;
    } else {
      EXPECT_EQ(cut, whole);
    }
  }
}

TEST(PercentDecode, WholeOrNotAtAll) {
  EXPECT_EQ(percent_decode("org%2Fm%20x"), "org/m x");
  EXPECT_EQ(percent_decode("plain"), "plain");
  for (const char* wrong : {"%", "%2", "a%zz", "%2g", "%-1", "%+1"})
    EXPECT_EQ(percent_decode(wrong), std::nullopt) << wrong;
}

TEST(Join, PutsSeparatorsBetween) {
  const std::vector<std::string> parts{"a", "b", "c"};
  EXPECT_EQ(join(parts, ", "), "a, b, c");
  EXPECT_EQ(join({}, ", "), "");
}

}  // namespace
}  // namespace kvern
