// vLLM's wire from the server's side: the bytes of a recorded vLLM 0.32 come out again, requests go in as it takes
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "api/vllm_wire/completion_answer.h"
#include "api/vllm_wire/completion_request.h"
#include "api/vllm_wire/routes.h"
#include "api/vllm_wire/vllm_error.h"
#include "base/json_reader.h"
#include "base/testing/source_path.h"

namespace kvern::api {
namespace {

std::string recording() {
  const std::string path = source_path("engine/vllm/recordings/vllm-0.32-http.jsonl");
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return {};
  std::string text;
  char buffer[65536];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
  std::fclose(file);
  return text;
}

/// The recorded call of a name, as its line.
std::string call_named(std::string_view name) {
  static const std::string kText = recording();
  const std::size_t at = kText.find(fmt::format("{{\"name\": \"{}\"", name));
  return at == std::string::npos ? std::string() : kText.substr(at, kText.find('\n', at) - at);
}

Tokens ids_of(json::Value array) {
  Tokens tokens;
  for (const auto& child : array.children()) tokens.push_back(static_cast<TokenId>(*child.value.integer()));
  return tokens;
}

WireUsage usage_of(json::Value usage) {
  return {static_cast<std::uint32_t>(*usage.find("prompt_tokens")->integer()),
          static_cast<std::uint32_t>(*usage.find("completion_tokens")->integer()),
          {}};
}

/// The pieces of a recorded answer, written again.
std::string write_again(const std::string& line, bool continuous, bool include_usage, bool return_ids) {
  const auto document = json::Document::parse(line, {});
  const json::Value call = (*document)->root();
  std::string out;
  std::optional<WireAnswer> answer;
  WireUsage usage;
  for (const auto& child : call.find("lines")->children()) {
    const std::string text = child.value.string();
    if (!text.starts_with("data: {")) continue;
    const auto chunk = json::Document::parse(std::string_view(text).substr(6), {});
    const json::Value root = (*chunk)->root();
    if (!answer) {
      const json::Value first = (*root.find("choices")->children().begin()).value;
      const auto echo = first.find("prompt_token_ids");
      answer.emplace(
          WireHead{root.find("id")->string(), *root.find("created")->integer(), "smol", "vllm-0.32.0-8228d687"},
          WireAnswerOptions{true, include_usage, continuous, return_ids, false},
          echo->is(json::Kind::kArray) ? ids_of(*echo) : Tokens());
    }
    if (const auto found = root.find("usage")) usage = usage_of(*found);
    for (const auto& choice : root.find("choices")->children()) {
      const std::string piece = choice.value.find("text")->string();
      const auto ids = choice.value.find("token_ids");
      const Tokens tokens = ids->is(json::Kind::kArray) ? ids_of(*ids) : Tokens();
      const auto reason = choice.value.find("finish_reason");
      const std::string finish = reason->is(json::Kind::kString) ? reason->string() : std::string();
      answer->piece({piece, tokens, {}, finish, std::string(choice.value.find("stop_reason")->raw())}, usage, out);
    }
  }
  answer->end(usage, out);
  return out;
}

std::string lines_of(const std::string& line) {
  const auto document = json::Document::parse(line, {});
  std::string out;
  for (const auto& child : (*document)->root().find("lines")->children()) out += child.value.string();
  return out;
}

TEST(VllmWire, StreamsAreARecordedServersByteForByte) {
  const std::string turn2 = call_named("ids-stream-turn2");
  ASSERT_FALSE(turn2.empty());
  EXPECT_EQ(write_again(turn2, false, true, true), lines_of(turn2));
  const std::string turn3 = call_named("ids-stream-turn3");
  EXPECT_EQ(write_again(turn3, true, true, true), lines_of(turn3));
  const std::string stop = call_named("stop-string");
  EXPECT_EQ(write_again(stop, false, false, false), lines_of(stop));
}

TEST(VllmWire, AWholeAnswerIsARecordedServersByteForByte) {
  const std::string line = call_named("ids-nonstream");
  const auto document = json::Document::parse(line, {});
  const std::string body = (*document)->root().find("body")->string();
  const auto parsed = json::Document::parse(body, {});
  const json::Value root = (*parsed)->root();
  const json::Value choice = (*root.find("choices")->children().begin()).value;
  const json::Value logprobs = *choice.find("logprobs");
  std::vector<WireLogprob> entries;
  for (const auto& child : logprobs.find("tokens")->children()) entries.push_back({child.value.string(), 0, {}});
  std::size_t at = 0;
  for (const auto& child : logprobs.find("token_logprobs")->children()) {
    entries[at++].logprob = static_cast<float>(child.value.number());
  }
  at = 0;
  for (const auto& child : logprobs.find("top_logprobs")->children()) {
    for (const auto& [token, value] : child.value.children()) {
      entries[at].top.emplace_back(token, static_cast<float>(value.number()));
    }
    ++at;
  }
  WireAnswer answer({root.find("id")->string(), *root.find("created")->integer(), "smol", "vllm-0.32.0-8228d687"},
                    {false, false, false, true, true}, ids_of(*choice.find("prompt_token_ids")));
  std::string out;
  const Tokens tokens = ids_of(*choice.find("token_ids"));
  answer.piece({choice.find("text")->string(), tokens, entries, "length", "null"}, {}, out);
  EXPECT_EQ(out, "");
  answer.end(usage_of(*root.find("usage")), out);
  EXPECT_EQ(out, body);
}

TEST(VllmWire, CachedTokensStandWherePeopleLook) {
  WireAnswer answer({"cmpl-1", 1, "m", "f"}, {true, true, false, true, false}, {});
  std::string out;
  answer.end({10, 2, 8}, out);
  EXPECT_NE(out.find(R"("completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}})"), std::string::npos);
}

TEST(VllmWire, CachedTokensAreToldEarlyToWhoAsks) {
  WireAnswer answer({"cmpl-1", 1, "m", "f"}, {.stream = true, .early_usage = true}, {});
  const Tokens tokens{5};
  std::string first;
  answer.piece({"a", tokens, {}, {}, {}}, {10, 1, 8}, first);
  EXPECT_NE(first.find(R"("completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}})"), std::string::npos);
  std::string second;
  answer.piece({"b", tokens, {}, {}, {}}, {10, 2, 8}, second);
  EXPECT_EQ(second.find("usage"), std::string::npos) << "once";
}

TEST(VllmWire, RequestsHaveVllmsDefaultsAndSigns) {
  const auto call = decode_wire_completion(
      R"({"model":"m","prompt":[1,2],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
          "priority":-5,"return_token_ids":true,"skip_special_tokens":false,"logprobs":0,"unknown":[{}]})",
      {});
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(std::get<Tokens>(call->request.prompt), (Tokens{1, 2}));
  EXPECT_EQ(call->request.hints.priority, 5);
  EXPECT_EQ(call->request.stopping.max_tokens, 16U);
  EXPECT_EQ(call->request.logprobs, 0U);
  EXPECT_TRUE(call->stream && call->include_usage && call->continuous_usage && call->return_token_ids);
  EXPECT_FALSE(call->skip_special_tokens);
  EXPECT_EQ(std::get<std::string>(decode_wire_completion(R"({"prompt":["a"]})", {})->request.prompt), "a");
}

TEST(VllmWire, WrongRequestsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {R"({})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[[]]})", "prompt[0]"},
      {R"({"prompt":["a","b"]})", "prompt"},
      {R"({"prompt":[1,"b"]})", "prompt[1]"},
      {R"({"prompt":[-1]})", "prompt[0]"},
      {R"({"prompt":"x","n":2})", "n"},
      {R"({"prompt":"x","priority":"high"})", "priority"},
      {R"({"prompt":"x","stream_options":{}})", "stream_options"},
      {R"({"prompt":"x","prompt_logprobs":1})", "prompt_logprobs"},
      {R"({"prompt":"x","logprobs":21})", "logprobs"}};
  for (const auto& [body, param] : rows) {
    const auto call = decode_wire_completion(body, {});
    ASSERT_FALSE(call.ok()) << body;
    EXPECT_EQ(call.error().param, param) << body;
  }
}

TEST(VllmWire, ErrorsHaveVllmsEnvelope) {
  Error error = fail(ErrorCode::kNotFound, "The model `nope` does not exist. Valid aliases: smol.");
  error.param = "model";
  const std::string call = call_named("err-model");  // what is parsed are views of it
  const auto recorded = json::Document::parse(call, {});
  ASSERT_TRUE(recorded.ok());
  EXPECT_EQ(vllm_error(error).body, (*recorded)->root().find("body")->string());
  EXPECT_EQ(vllm_error(error).status, 404);
  EXPECT_NE(vllm_error(fail(ErrorCode::kContextLength, "m")).body.find(R"("param":"input_tokens","code":400)"),
            std::string::npos);
}

TEST(VllmWire, RoutesAnswerMethodsAndPaths) {
  EXPECT_EQ(*find_wire_route("POST", "/v1/completions"), WireService::kCompletions);
  EXPECT_EQ(*find_wire_route("HEAD", "/health"), WireService::kHealth);
  EXPECT_EQ(find_wire_route("GET", "/v1/completions").error().code, ErrorCode::kMethodNotAllowed);
  EXPECT_EQ(find_wire_route("GET", "/v1/chat/completions").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(allowed_wire_methods("/ping"), "GET, HEAD, POST");
}

}  // namespace
}  // namespace kvern::api
