#include "pipeline/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(prepared->generate.prompt_text, "user:hi\nassistant:");
  EXPECT_EQ(prepared->generate.prompt.size(), 18U);
  EXPECT_EQ(prepared->generate.max_tokens, 82U);
}

TEST(Prepare, LargeMaxTokensIsCutToWhatIsLeft) {
  auto request = chat("hi");
  request.stopping.max_tokens = 1'000'000;
  EXPECT_EQ(prepare(request, model(100))->generate.max_tokens, 82U);
}

TEST(Prepare, TooLongNamesBothNumbers) {
  const auto prepared = prepare(chat(std::string(200, 'x')), model(100));
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(prepared.error().message, HasSubstr("100 tokens"));
  EXPECT_THAT(prepared.error().message, HasSubstr("216 tokens"));
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(Prepare, HopelessTextIsRefusedByItsLength) {
  const auto prepared = prepare(chat(std::string(2000, 'x')), model(100));
  EXPECT_THAT(prepared.error().message, HasSubstr("at least 252 tokens"));
}

TEST(Prepare, TenantsAndSaltsShareNoBlocks) {
  const auto name = [](std::string tenant, std::string salt) {
    auto request = chat("hi");
    request.tenant = std::move(tenant);
    request.hints.cache_salt = std::move(salt);
    return prepare(request, model(100))->generate.cache_namespace;
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

TEST(Prepare, AnEmptyPromptIsRefused) {
  ir::Request request;
  request.prompt = std::string();
  EXPECT_EQ(prepare(request, model(100)).error().param, "prompt");
}

TEST(Prepare, ATemplateMayEndInsideReasoning) {
  EXPECT_TRUE(prepare(chat("hi"), model(100, "assistant:<think>\n"))->starts_in_reasoning);
  EXPECT_FALSE(prepare(chat("<think>"), model(100))->starts_in_reasoning);
}

TEST(Prepare, TheTemplatesRefusalComesThrough) {
  EXPECT_EQ(prepare(chat("refuse me"), model(100)).error().message, "the template refuses this");
}

}  // namespace
}  // namespace kvern::pipeline
