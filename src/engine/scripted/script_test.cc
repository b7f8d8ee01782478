#include "engine/scripted/script.h"

#include <gtest/gtest.h>

namespace kvern::engine {
namespace {

Script script(std::string_view text) {
  auto lines = parse_script(text);
  EXPECT_TRUE(lines.ok()) << lines.error().message;
  return Script(std::move(*lines));
}

TEST(ParseScript, TakesEveryKey) {
  const auto lines = parse_script(
      "# a comment\n\n"
      R"({"match":"weather","text":"sunny","finish":"length","ttft_ms":5,"itl_ms":2})"
      "\n"
      R"({"token_ids":[1,2],"repeat":true})"
      "\n"
      R"({"chunks":["a","b"],"finish":"die"})");
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 3U);
  EXPECT_EQ((*lines)[0].match, "weather");
  EXPECT_EQ((*lines)[0].ttft.count(), 5);
  EXPECT_EQ((*lines)[0].finish, ScriptFinish::kLength);
  EXPECT_EQ((*lines)[1].token_ids, (Tokens{1, 2}));
  EXPECT_TRUE((*lines)[1].repeat);
  EXPECT_EQ((*lines)[2].chunks->size(), 2U);
}

TEST(ParseScript, ErrorsNameTheLine) {
  const auto fault = [](std::string_view text) {
    const auto lines = parse_script(text);
    return lines.ok() ? std::string("accepted") : lines.error().message;
  };
  EXPECT_EQ(fault("{\"text\":\"a\"}\n{oops"), "script line 2: not a JSON object");
  EXPECT_EQ(fault(R"({"text":"a","colour":1})"), "script line 1: unknown key `colour`");
  EXPECT_EQ(fault(R"({"text":"a","chunks":[]})"), "script line 1: one of text, token_ids or chunks gives the answer");
  EXPECT_EQ(fault(R"({})"), "script line 1: one of text, token_ids or chunks gives the answer");
  EXPECT_EQ(fault(R"({"text":"a","finish":"maybe"})"), "script line 1: finish is one of stop, length, error, die");
  EXPECT_EQ(fault(R"({"token_ids":[-1]})"), "script line 1: token_ids is a list of token ids");
}

TEST(Script, PlainLinesFirstThenRepeats) {
  Script s = script(R"({"text":"r","repeat":true}
{"text":"1"}
{"match":"x","text":"2"}
{"text":"3"})");
  EXPECT_EQ(*s.take("a")->text, "1");
  EXPECT_EQ(*s.take("a")->text, "3");
  EXPECT_EQ(*s.take("a")->text, "r");
  EXPECT_EQ(*s.take("with x")->text, "2");
  EXPECT_EQ(*s.take("with x")->text, "r");
}

TEST(Script, EndsExhausted) {
  Script s = script(R"({"match":"x","text":"1"})");
  EXPECT_EQ(s.take("y"), nullptr);
  EXPECT_NE(s.take("x"), nullptr);
  EXPECT_EQ(s.take("x"), nullptr);
}

}  // namespace
}  // namespace kvern::engine
