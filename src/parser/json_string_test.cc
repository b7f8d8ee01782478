#include "parser/json_string.h"

#include <gtest/gtest.h>

#include <string_view>

namespace kvern::parser {
namespace {

/// Decodes up to the closing quote; "(open)" is added where there is none.
std::string decoded(std::string_view text) {
  JsonString string;
  std::string out;
  for (const char c : text) {
    if (string.step(c, out)) return out;
  }
  return out + "(open)";
}

TEST(JsonString, PlainAndEscaped) {
  EXPECT_EQ(decoded("abc\""), "abc");
  EXPECT_EQ(decoded(R"(a\n\t\"\\\/\u00e9\b\f\r")"), "a\n\t\"\\/é\b\f\r");
  EXPECT_EQ(decoded("raw\nbreak\""), "raw\nbreak");
  EXPECT_EQ(decoded("abc"), "abc(open)");
}

TEST(JsonString, PairsAndHalves) {
  EXPECT_EQ(decoded(R"(\ud83d\ude00")"), "😀");
  EXPECT_EQ(decoded(R"(\ud83d")"), "\xEF\xBF\xBD");
  EXPECT_EQ(decoded(R"(\ud83dx")"), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoded(R"(\ud83d\n")"), "\xEF\xBF\xBD\n");
  EXPECT_EQ(decoded(R"(\ude00")"), "\xEF\xBF\xBD");
  EXPECT_EQ(decoded(R"(\ud83d\ud83d\ude00")"), "\xEF\xBF\xBD😀");
}

TEST(JsonString, BrokenEscapesAreForgiven) {
  EXPECT_EQ(decoded(R"(\q")"), "q");
  EXPECT_EQ(decoded(R"(\u12")"), "\xEF\xBF\xBD");
  EXPECT_EQ(decoded(R"(\u12\n")"), "\xEF\xBF\xBD\n");
}

}  // namespace
}  // namespace kvern::parser
