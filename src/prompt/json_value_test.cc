#include "prompt/json_value.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvern::prompt {
namespace {

std::string again(std::string_view json) {
  const std::optional<jinja::value> value = json_value(json);
  return value ? jinja::value_to_json(*value) : "(none)";
}

TEST(JsonValue, KeepsOrderNumbersAndText) {
  EXPECT_EQ(again(R"({"b": 1, "a": [true, false, null], "c": {"x": "y"}})"),
            R"({"b": 1, "a": [true, false, null], "c": {"x": "y"}})");
  EXPECT_EQ(again("[0, -1, 9223372036854775807, 0.1, 1.5, 2.0]"), "[0, -1, 9223372036854775807, 0.1, 1.5, 2.0]");
  EXPECT_EQ(again(R"("a\"b\\c\/\n\u00e9\ud83d\ude00")"), "\"a\\\"b\\\\c/\\n\xC3\xA9\xF0\x9F\x98\x80\"");
  EXPECT_EQ(again(R"({"a": 1, "a": 2})"), "(none)");
}

TEST(JsonValue, WhatIsNotJsonIsNone) {
  for (const char* bad : {"",   " ",       "{",   "[1,]",  "{\"a\":}", "{a: 1}",    "01",  "1.", "-", "tru",
                          "\"", "\"\\x\"", "1 2", "[1 2]", "\"\n\"",   "\"\\u12\"", "nan", "+1", "[", "{\"a\" 1}"}) {
    EXPECT_EQ(again(bad), "(none)") << bad;
  }
  EXPECT_EQ(again(std::string(100'000, '[')), "(none)");
  EXPECT_EQ(again("\"\\ud800\""), "\"\xEF\xBF\xBD\"");
}

TEST(JsonValue, EverythingIsInput) {
  const std::optional<jinja::value> value = json_value(R"({"k": ["v"]})");
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE((*value)->val_obj[0].first->val_str.any_part_is_input());
  EXPECT_TRUE((*value)->val_obj[0].second->val_arr[0]->val_str.any_part_is_input());
}

}  // namespace
}  // namespace kvern::prompt
