#include "engine/vllm/request_body.h"

#include <fmt/format.h>

#include <iterator>

#include "base/json_writer.h"
#include "base/sha256.h"

namespace kvern::engine {
namespace {

void append_tokens(std::string& out, std::string_view key, const Tokens& tokens) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", key);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    json::append_number(out, tokens[i]);
  }
  out += ']';
}

/// Shortest text that reads back as the same number; finite, as dialects check.
void append_real(std::string& out, std::string_view key, double value) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, value);
}

void append_sampling(std::string& out, const ir::Sampling& sampling) {
  append_real(out, "temperature", sampling.temperature);
  append_real(out, "top_p", sampling.top_p);
  fmt::format_to(std::back_inserter(out), ",\"top_k\":{}", sampling.top_k);
  append_real(out, "min_p", sampling.min_p);
  append_real(out, "presence_penalty", sampling.presence_penalty);
  append_real(out, "frequency_penalty", sampling.frequency_penalty);
  append_real(out, "repetition_penalty", sampling.repetition_penalty);
  // vLLM takes a signed seed; all that matters is that equal ones stay equal.
  if (sampling.seed) {
    fmt::format_to(std::back_inserter(out), ",\"seed\":{}", static_cast<std::int64_t>(*sampling.seed));
  }
  if (sampling.logit_bias.empty()) return;
  out += ",\"logit_bias\":{";
  bool first = true;
  for (const auto& [token, bias] : sampling.logit_bias) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\":{}", first ? "" : ",", token, bias);
    first = false;
  }
  out += '}';
}

}  // namespace

std::string completion_body(const GenerateRequest& request, std::string_view model, bool with_priority) {
  std::string out;
  out.reserve(640 + request.prompt.size() * 7);
  out += "{\"model\":";
  json::append_quoted(out, model);
  append_tokens(out, "prompt", request.prompt);
  fmt::format_to(std::back_inserter(out),
                 R"(,"stream":true,"stream_options":{{"include_usage":true}},"return_token_ids":true,)"
                 R"("skip_special_tokens":false,"spaces_between_special_tokens":false,"n":1,)"
                 R"("max_tokens":{},"min_tokens":{},"ignore_eos":{})",
                 request.max_tokens, request.min_tokens, request.ignore_eos);
  if (!request.stop_token_ids.empty()) append_tokens(out, "stop_token_ids", request.stop_token_ids);
  append_sampling(out, request.sampling);
  if (request.logprobs) {
    fmt::format_to(std::back_inserter(out), R"(,"logprobs":{},"return_tokens_as_token_ids":true)", *request.logprobs);
  }
  if (with_priority && request.priority != 0) {
    fmt::format_to(std::back_inserter(out), ",\"priority\":{}", -static_cast<std::int64_t>(request.priority));
  }
  if (!request.cache_namespace.empty()) {
    out += ",\"cache_salt\":\"" + sha256_hex("kvern cache namespace\n" + request.cache_namespace) + '"';
  }
  out += '}';
  return out;
}

std::size_t answer_bytes_max(const GenerateRequest& request) {
  // An event of one token has some 300 bytes, an alternative some 40; the echo of the prompt up to 11 a token.
  const std::size_t token = 4096 + (request.logprobs ? 256U * (*request.logprobs + 1U) : 0U);
  return (1U << 20U) + request.prompt.size() * 16 + request.max_tokens * token;
}

}  // namespace kvern::engine
