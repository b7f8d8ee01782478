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

TEST(IsUtf8, HalvesAndSurrogatesAreNot) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0\u20ac", 5)));
  for (const char* text : {"\xE2\x82", "\xFF", "\xED\xA0\x80"}) EXPECT_FALSE(is_utf8(text));
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

TEST(Printable, WhatATerminalMayObeyIsSpelledOut) {
  for (const char* plain : {"", "Qwen/Qwen3-8B (Q4_1)", "gr\u00fcn \u4f60 \U0001F44B \u00a0"})
    EXPECT_EQ(printable(plain), plain);
  const std::pair<std::string, std::string> rows[] = {{"\x1b[2J", "\\x1b[2J"},
                                                      {"a\nb\t\r", "a\\x0ab\\x09\\x0d"},
                                                      {"\x7f", "\\x7f"},
                                                      {"\xc2\x9b", "\\xc2\\x9b"},
                                                      {"\u202e", "\\xe2\\x80\\xae"},
                                                      {"\u2028", "\\xe2\\x80\\xa8"},
                                                      {"\xff", "\\xff"},
                                                      {"\xc0\x80", "\\xc0\\x80"},
                                                      {"\xe2\x82", "\\xe2\\x82"},
                                                      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                                                      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
                                                      {std::string("\0", 1), "\\x00"}};
  for (const auto& [text, expected] : rows) EXPECT_EQ(printable(text), expected);
}

TEST(Printable, WholeTextIsMadeOfWholeCharacters) {
  // Every two bytes: nothing is lost, and nothing that is shown is a control.
  for (int high = 0; high < 256; ++high) {
    for (int low = 0; low < 256; ++low) {
      const std::string text{static_cast<char>(high), static_cast<char>(low)};
      for (const char c : printable(text)) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
      EXPECT_LE(first_character(text).bytes, 2U);
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

TEST(Text, AClearedBufferKeepsRoomForSmallPiecesOnly) {
  std::string buffer(500, 'x');
  const std::size_t kept = buffer.capacity();
  clear_buffer(buffer);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.capacity(), kept);
  buffer.assign(5'000, 'x');
  clear_buffer(buffer);
  EXPECT_TRUE(buffer.empty());
  EXPECT_LE(buffer.capacity(), 512U);
}

}  // namespace
}  // namespace kvern
