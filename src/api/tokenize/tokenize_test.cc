#include "api/tokenize/tokenize.h"

#include <gtest/gtest.h>

namespace kvern::api {
namespace {

TEST(Tokenize, TakesTextOrMessages) {
  const auto text = decode_tokenize(R"({"model":"m","prompt":"hi","add_special_tokens":false})", Limits());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(std::get<std::string>(text->request.prompt), "hi");
  EXPECT_EQ(text->add_special_tokens, false);
  EXPECT_FALSE(text->return_token_strs);
  const auto chat = decode_tokenize(
      R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],)"
      R"("chat_template_kwargs":{"enable_thinking":false},"return_token_strs":true})",
      Limits());
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(std::get<std::vector<ir::Message>>(chat->request.prompt).size(), 1U);
  EXPECT_EQ(chat->request.tools.size(), 1U);
  EXPECT_EQ(chat->request.template_options.at("enable_thinking"), "false");
  EXPECT_EQ(chat->add_special_tokens, std::nullopt);
  EXPECT_TRUE(chat->return_token_strs);
}

TEST(Tokenize, AnEmptyPromptIsText) {
  const auto call = decode_tokenize(R"({"prompt":""})", Limits());
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(std::get<std::string>(call->request.prompt), "");
}

TEST(Tokenize, AnswersInVllmsShape) {
  const Tokens tokens{1, 22, 333};
  EXPECT_EQ(render_tokenize(tokens, 2048, nullptr),
            R"({"count":3,"max_model_len":2048,"tokens":[1,22,333],"token_strs":null})");
  const std::vector<std::string> texts{"a\n", "é", "\xF0\x9F"};
  EXPECT_EQ(render_tokenize(tokens, 8, &texts),
            R"({"count":3,"max_model_len":8,"tokens":[1,22,333],"token_strs":["a\n","é","\\xF0\\x9F"]})");
}

TEST(Detokenize, BothWays) {
  const auto call = decode_detokenize(R"({"model":"m","tokens":[0,5,2147483647]})", Limits());
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->tokens, (Tokens{0, 5, 2147483647}));
  EXPECT_EQ(render_detokenize("a\"b"), R"({"prompt":"a\"b"})");
}

}  // namespace
}  // namespace kvern::api
