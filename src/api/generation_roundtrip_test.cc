// Any choices, log probabilities, biases and prompts written as a body decode to themselves, at both endpoints.
#include <gtest/gtest.h>

#include "api/chat/chat.h"
#include "api/completions/completions.h"
#include "base/json_writer.h"
#include "base/rng.h"

namespace kvern::api {
namespace {

ir::Prompt random_prompt(Rng& rng) {
  if (rng.below(2) == 0) return std::string("text ") + std::to_string(rng.below(100)) + "\n😀";
  Tokens tokens;
  for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) tokens.push_back(static_cast<TokenId>(rng.below(1U << 31U)));
  return tokens;
}

ir::Request random_request(Rng& rng, bool chat) {
  ir::Request out;
  out.choices = static_cast<std::uint32_t>(1 + rng.below(16));
  if (rng.below(2) == 0) out.logprobs = static_cast<std::uint32_t>(rng.below(21));
  for (std::uint64_t n = rng.below(5); n > 0; --n) {
    const auto token = static_cast<TokenId>(n * 500'000'000 - rng.below(400'000'000));  // no two alike
    out.sampling.logit_bias.emplace_back(token, static_cast<float>(rng.below(401)) / 2 - 100);
  }
  if (rng.below(2) == 0) out.sampling.repetition_penalty = 1 + static_cast<double>(rng.below(64)) / 64;
  if (chat) {
    out.prompt = std::vector<ir::Message>{{ir::Role::kUser, {}, {{ir::Text{"hi"}, {}}}}};
    return out;
  }
  out.prompt = random_prompt(rng);
  for (std::uint64_t n = rng.below(8); n > 0; --n) out.more_prompts.push_back(random_prompt(rng));
  return out;
}

void write(const ir::Prompt& prompt, json::Writer& writer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    writer.value(*text);
    return;
  }
  writer.begin_array();
  for (const TokenId token : std::get<Tokens>(prompt)) writer.value(token);
  writer.end_array();
}

void write_prompts(const ir::Request& request, Rng& rng, json::Writer& writer) {
  writer.key("prompt");
  // One prompt may stand alone or in a list of one.
  const bool list = !request.more_prompts.empty() || rng.below(2) == 0;
  if (!list) return write(request.prompt, writer);
  writer.begin_array();
  write(request.prompt, writer);
  for (const ir::Prompt& prompt : request.more_prompts) write(prompt, writer);
  writer.end_array();
}

std::string body_of(const ir::Request& request, bool chat, Rng& rng) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  if (request.choices > 1 || rng.below(2) == 0) writer.member("n", request.choices);
  if (request.logprobs && chat) writer.member("logprobs", true).member("top_logprobs", *request.logprobs);
  if (request.logprobs && !chat) writer.member("logprobs", *request.logprobs);
  writer.key("logit_bias").begin_object();
  for (const auto& [token, bias] : request.sampling.logit_bias)
    writer.key(std::to_string(token)).raw(std::to_string(bias));
  writer.end_object();
  writer.key("repetition_penalty").raw(std::to_string(request.sampling.repetition_penalty));
  if (chat) {
    writer.key("messages").raw(R"([{"role":"user","content":"hi"}])");
  } else {
    write_prompts(request, rng, writer);
  }
  writer.end_object();
  return body;
}

TEST(GenerationRoundTrip, FieldsComeBackWhole) {
  Rng rng(23);
  for (const bool chat : {true, false}) {
    const auto dialect = chat ? make_chat_dialect(Limits()) : make_completions_dialect(Limits());
    for (int round = 0; round < 1000; ++round) {
      const ir::Request request = random_request(rng, chat);
      const std::string body = body_of(request, chat, rng);
      const auto call = dialect->decode(body, {});
      ASSERT_TRUE(call.ok()) << call.error().message << "\n" << body;
      ASSERT_EQ(call->request, request) << body;
    }
  }
}

}  // namespace
}  // namespace kvern::api
