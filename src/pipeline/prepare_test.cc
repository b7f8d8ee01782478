#include "pipeline/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "pipeline/testing/byte_tokenizer.h"

namespace kvern::pipeline {
namespace {

using ::testing::HasSubstr;

Model model(std::uint32_t context, std::string tail = "assistant:") {
  Model made;
  made.name = "m";
  made.context_tokens = context;
  made.tokenizer = std::make_shared<testing::ByteTokenizer>();
  made.chat_template = std::make_shared<testing::PlainTemplate>(std::move(tail));
  return made;
}

ir::Request chat(std::string text) {
  ir::Request request;
  request.prompt = std::vector<ir::Message>{{ir::Role::kUser, {}, {{ir::Text{std::move(text)}, {}}}}};
  return request;
}

TEST(Prepare, RendersAndTakesWhatIsLeft) {
  const auto prepared = prepare(chat("hi"), model(100));
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->generate[0].prompt_text, "user:hi\nassistant:");
  EXPECT_EQ(prepared->generate[0].prompt.size(), 18U);
  EXPECT_EQ(prepared->generate[0].max_tokens, 82U);
}

TEST(Prepare, LargeMaxTokensIsCutToWhatIsLeft) {
  auto request = chat("hi");
  request.stopping.max_tokens = 1'000'000;
  EXPECT_EQ(prepare(request, model(100))->generate[0].max_tokens, 82U);
}

TEST(Prepare, TooLongNamesBothNumbers) {
  const auto prepared = prepare(chat(std::string(200, 'x')), model(100));
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(prepared.error().message, HasSubstr("prompt is too long: 216 tokens > 100 maximum"));
  EXPECT_THAT(prepared.error().message, HasSubstr("100 tokens"));
  EXPECT_THAT(prepared.error().message, HasSubstr("216 tokens"));
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(Prepare, HopelessTextIsRefusedByItsLength) {
  const auto prepared = prepare(chat(std::string(2000, 'x')), model(100));
  EXPECT_THAT(prepared.error().message, HasSubstr("at least 252 tokens"));
}

/// Notes in whose name it was asked.
class NotingTokenizer final : public prompt::Tokenizer {
 public:
  Tokens encode(std::span<const prompt::Span> spans, std::string_view name_space) const override {
    asked.emplace_back(name_space);
    return bytes_.encode(spans);
  }
  Tokens encode_text(std::string_view text, bool add_special, std::string_view name_space) const override {
    asked.emplace_back(name_space);
    return bytes_.encode_text(text, add_special);
  }
  std::string piece(TokenId token, bool special) const override { return bytes_.piece(token, special); }
  bool is_special(TokenId token) const override { return bytes_.is_special(token); }
  bool is_end(TokenId token) const override { return bytes_.is_end(token); }
  std::uint32_t size() const override { return bytes_.size(); }

  mutable std::vector<std::string> asked;

 private:
  testing::ByteTokenizer bytes_;
};

TEST(Prepare, TextIsTokenisedInTheNameOfItsNamespace) {
  const auto tokenizer = std::make_shared<NotingTokenizer>();
  Model asked = model(100);
  asked.tokenizer = tokenizer;
  auto request = chat("hi");
  request.tenant = "a";
  ASSERT_TRUE(prepare(request, asked).ok());
  request.prompt = std::string("raw");
  request.more_prompts.emplace_back(std::string("more"));
  ASSERT_TRUE(prepare(request, asked).ok());
  ASSERT_TRUE(prompt_tokens(request, asked).ok());
  EXPECT_EQ(cache_namespace(request), "1:a");
  EXPECT_THAT(tokenizer->asked, ::testing::Each("1:a"));
  EXPECT_EQ(tokenizer->asked.size(), 4U);
}

TEST(Prepare, TenantsAndSaltsShareNoBlocks) {
  const auto name = [](std::string tenant, std::string salt) {
    auto request = chat("hi");
    request.tenant = std::move(tenant);
    request.hints.cache_salt = std::move(salt);
    return prepare(request, model(100))->generate[0].cache_namespace;
  };
  EXPECT_EQ(name("default", ""), "");
  EXPECT_NE(name("a", ""), "");
  EXPECT_NE(name("a", ""), name("b", ""));
  EXPECT_NE(name("a", "x"), name("a", ""));
  EXPECT_NE(name("a", "bc"), name("ab", "c"));
  EXPECT_NE(name("default", "x"), name("default", ""));
}

TEST(Prepare, MinTokensMustFit) {
  auto request = chat("hi");
  request.stopping.min_tokens = 1'000'000'000;
  EXPECT_EQ(prepare(request, model(100)).error().param, "min_tokens");
}

TEST(Prepare, TokenIdsIndexTheVocabulary) {
  ir::Request request;
  request.prompt = Tokens{1, 2, 256};
  EXPECT_TRUE(prepare(request, model(100)).ok());
  request.prompt = Tokens{1, 257};
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt");
  request.prompt = Tokens{-1};
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt");
  request.prompt = Tokens{1};
  request.stopping.token_ids = {9999};
  EXPECT_EQ(prepare(request, model(100)).error().param, "stop_token_ids");
}

TEST(Prepare, BiasedTokensIndexTheVocabulary) {
  ir::Request request = chat("hi");
  request.sampling.logit_bias = {{256, 1.0F}};
  EXPECT_TRUE(prepare(request, model(100)).ok());
  request.sampling.logit_bias = {{257, 1.0F}};
  EXPECT_EQ(prepare(request, model(100)).error().param, "logit_bias");
}

TEST(Prepare, ChoicesAreEqualButForTheirSeed) {
  ir::Request request = chat("hi");
  request.choices = 3;
  request.logprobs = 2;
  auto prepared = prepare(request, model(100));
  ASSERT_EQ(prepared->generate.size(), 3U);
  for (const auto& generate : prepared->generate) {
    EXPECT_EQ(generate.prompt_text, "user:hi\nassistant:");
    EXPECT_EQ(generate.logprobs, 2U);
    EXPECT_FALSE(generate.sampling.seed.has_value());
  }
  request.sampling.seed = std::numeric_limits<std::uint64_t>::max();
  prepared = prepare(request, model(100));
  EXPECT_EQ(prepared->generate[0].sampling.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(prepared->generate[1].sampling.seed, 0U) << "it wraps";
}

TEST(Prepare, SeveralPromptsFollowOneAnother) {
  ir::Request request;
  request.prompt = std::string("one");
  request.more_prompts = {Tokens{1, 2}, std::string("three")};
  request.choices = 2;
  request.sampling.seed = 5;
  const auto prepared = prepare(request, model(100));
  ASSERT_EQ(prepared->generate.size(), 6U);
  EXPECT_EQ(prepared->generate[1].prompt_text, "one");
  EXPECT_EQ(prepared->generate[2].prompt, (Tokens{1, 2}));
  EXPECT_EQ(prepared->generate[2].max_tokens, 98U);
  EXPECT_EQ(prepared->generate[5].prompt_text, "three");
  EXPECT_EQ(prepared->generate[5].sampling.seed, 6U) << "the second choice of its prompt";
}

TEST(Prepare, AFaultNamesThePromptOfSeveral) {
  ir::Request request;
  request.prompt = std::string("one");
  request.more_prompts = {Tokens{1, 257}};
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt[1]");
  request.more_prompts = {std::string()};
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt[1]");
  request.more_prompts = {Tokens{1}, std::string(100, 'x')};
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt[2]");
}

TEST(Prepare, TokensOfAllChoicesAreBounded) {
  ir::Request request;
  request.prompt = Tokens(200'000, 1);
  request.choices = 128;
  const auto prepared = prepare(request, model(1'000'000));
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().param, "n");
}

TEST(Prepare, AnEmptyPromptIsRefused) {
  ir::Request request;
  request.prompt = std::string();
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt");
}

TEST(Prepare, ATemplateMayEndInsideReasoning) {
  EXPECT_TRUE(prepare(chat("hi"), model(100, "assistant:<think>\n"))->starts_in_reasoning);
  EXPECT_FALSE(prepare(chat("<think>"), model(100))->starts_in_reasoning);
}

TEST(Prepare, WhatATextModelCannotReadIsRefused) {
  const auto param = [](ir::Content content) {
    auto request = chat("hi");
    std::get<std::vector<ir::Message>>(request.prompt)[0].blocks.push_back({std::move(content), {}});
    const auto prepared = prepare(request, model(200));
    return prepared.ok() ? "" : prepared.error().message;
  };
  EXPECT_THAT(param(ir::Image{"image/png", "AAAA"}), HasSubstr("holds an image"));
  EXPECT_THAT(param(ir::Document{"application/pdf", "AAAA"}), HasSubstr("holds a file"));
  EXPECT_THAT(param(ir::ToolResult{"c", "", {ir::Text{"x"}, ir::Image{"image/png", "AAAA"}}}), HasSubstr("an image"));
  EXPECT_EQ(param(ir::Document{"text/plain", "", "text"}), "");
  EXPECT_EQ(param(ir::RedactedThinking{"x"}), "");
}

TEST(Prepare, TheTemplatesRefusalComesThrough) {
  EXPECT_EQ(prepare(chat("refuse me"), model(100)).error().message, "the template refuses this");
}

}  // namespace
}  // namespace kvern::pipeline
