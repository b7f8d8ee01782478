#include "api/fields.h"

#include <gtest/gtest.h>

namespace kvern::api {
namespace {

/// Reads `text` by `read` and gives the first fault, or "".
template <typename Read>
std::string fault_of(std::string_view text, Read read) {
  const auto document = json::Document::parse(text, {});
  KV_CHECK(document.ok());
  const Limits limits;
  Decoding decoding(limits);
  const Path top;
  read(Fields((*document)->root(), top, decoding));
  return decoding.failed() ? decoding.fault().param + ": " + decoding.fault().message : "";
}

TEST(Fields, PathsReadAsTheClientWritesThem) {
  const Path top;
  const Path messages = member_of(top, "messages");
  const Path second = element_of(messages, 2);
  EXPECT_EQ(top.str(), "");
  EXPECT_EQ(member_of(second, "content").str(), "messages[2].content");
}

TEST(Fields, AbsentAndNullLeaveTheDefault) {
  double number = 7;
  bool flag = true;
  std::string text = "x";
  const auto read = [&](const Fields& fields) {
    EXPECT_FALSE(fields.number("a", 0, 1, number));
    EXPECT_FALSE(fields.boolean("b", flag));
    EXPECT_FALSE(fields.string("c", text));
    EXPECT_FALSE(fields.has("a"));
  };
  EXPECT_EQ(fault_of(R"({"a":null,"b":null})", read), "");
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "x");
}

TEST(Fields, TypesAndRangesAreNamed) {
  double number = 0;
  std::int32_t integer = 0;
  EXPECT_EQ(fault_of(R"({"t":"x"})", [&](const Fields& f) { f.number("t", 0, 2, number); }),
            "t: `t` must be a number, not a string");
  EXPECT_EQ(fault_of(R"({"t":3})", [&](const Fields& f) { f.number("t", 0, 2, number); }),
            "t: `t` must be between 0 and 2");
  EXPECT_EQ(fault_of(R"({"p":0})", [&](const Fields& f) { f.number("p", 0, 1, number, true); }),
            "p: `p` must be above 0 and at most 1");
  EXPECT_EQ(fault_of(R"({"k":1.5})", [&](const Fields& f) { f.integer("k", 0, 9, integer); }),
            "k: `k` must be an integer between 0 and 9");
  EXPECT_EQ(fault_of(R"({})", [&](const Fields& f) { f.required("m"); }), "m: `m` is missing");
}

TEST(Fields, TheFirstFaultStays) {
  std::string text;
  EXPECT_EQ(fault_of(R"({"a":1,"b":2})",
                     [&](const Fields& f) {
                       f.string("a", text);
                       f.string("b", text);
                     }),
            "a: `a` must be a string, not a number");
}

TEST(Fields, ShownTextIsCutAtACharacter) {
  EXPECT_EQ(shown("abc"), "abc");
  const std::string cut = shown(std::string(63, 'x') + "é and more");
  EXPECT_EQ(cut, std::string(63, 'x') + "...");
}

}  // namespace
}  // namespace kvern::api
