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
      R"({"chunks":["a","b"],"finish":"die"})"
      "\n"
      R"({"text":"a","logprobs":[{"logprob":-0.5,"top":[[97,-0.5],[98,-1]]},{"logprob":-2}]})");
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 4U);
  ASSERT_EQ((*lines)[3].logprobs.size(), 2U);
  EXPECT_EQ((*lines)[3].logprobs[0].top, (std::vector<std::pair<TokenId, float>>{{97, -0.5F}, {98, -1.0F}}));
  EXPECT_EQ((*lines)[3].logprobs[1].logprob, -2.0F);
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
  EXPECT_EQ(fault(R"({"text":"a","finish":"maybe"})"),
            "script line 1: finish is one of stop, length, error, die, overloaded");
  EXPECT_EQ(fault(R"({"text":"a","finish":"overloaded"})"), "script line 1: what is overloaded gives no answer");
  EXPECT_EQ(fault(R"({"token_ids":[-1]})"), "script line 1: token_ids is a list of token ids");
  for (const char* wrong : {"-0.5", "[-0.5]", R"([{"top":[]}])", R"([{"logprob":-1,"top":{}}])",
                            R"([{"logprob":-1,"top":[[-5,-1]]}])", R"([{"logprob":-1,"top":[[5]]}])"}) {
    EXPECT_EQ(fault(std::string(R"({"text":"a","logprobs":)") + wrong + "}"),
              R"(script line 1: logprobs is a list of {"logprob": number, "top"?: [[token id, number], ...]})")
        << wrong;
  }
  EXPECT_EQ(fault(R"({"chunks":["a"],"logprobs":[{"logprob":-1}]})"),
            "script line 1: chunks are no tokens: they have no logprobs");
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
