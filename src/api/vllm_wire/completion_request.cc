#include "api/vllm_wire/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/body.h"
#include "api/fields.h"
#include "api/generation_fields.h"
#include "api/unserved_fields.h"

namespace kvern::api {
namespace {

/// What vLLM generates when nothing is said.
constexpr std::uint32_t kMaxTokensInitial = 16;

/// A string, an array of token ids, or an array with one of either.
void decode_wire_prompt(const Fields& fields, ir::Prompt& out) {
  if (!fields.required("prompt")) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("prompt");
  json::Value prompt = *fields.find("prompt");
  Path place = path;
  if (prompt.is(json::Kind::kArray) && prompt.size() > 0) {
    const json::Value first = (*prompt.children().begin()).value;
    if (!first.is(json::Kind::kNumber)) {
      if (prompt.size() > 1) return decoding.unsupported(path, "only one prompt a request");
      place = element_of(path, 0);
      prompt = first;
    }
  }
  if (prompt.is(json::Kind::kString)) {
    out = prompt.string();
  } else if (!prompt.is(json::Kind::kArray)) {
    decoding.wrong_type(place, "a string or an array of token ids", prompt.kind());
  } else if (prompt.size() == 0) {
    decoding.fail(place, "must not be empty");
  } else {
    decode_token_ids(prompt, Limit::kPromptTokens, place, decoding, out.emplace<Tokens>());
  }
}

void decode_wire_stream(const Fields& fields, WireCall& call) {
  fields.boolean("stream", call.stream);
  const auto options = fields.object("stream_options");
  if (!options) return;
  const Path path = fields.path("stream_options");
  if (!call.stream) return fields.decoding().fail(path, "goes only with `stream`: true");
  const Fields inner(*options, path, fields.decoding());
  inner.boolean("include_usage", call.include_usage);
  inner.boolean("continuous_usage_stats", call.continuous_usage);
  call.continuous_usage = call.continuous_usage && call.include_usage;
}

void refuse_unserved_wire(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  std::int64_t count = 1;
  for (const std::string_view name : {"n", "best_of"}) {
    if (fields.integer(name, 1, static_cast<std::int64_t>(decoding.limits()[Limit::kChoices]), count) && count != 1)
      decoding.unsupported(fields.path(name), "only one choice a request");
  }
  if (fields.has("response_format")) decoding.unsupported(fields.path("response_format"), "leave it out");
  refuse_unserved_fields(fields, kOnWire);
}

}  // namespace

Result<WireCall> decode_wire_completion(std::string_view body, const Limits& limits) {
  auto document = read_object(body, limits);
  if (!document) return std::move(document).error();
  Decoding decoding(limits);
  const Path top;
  const Fields fields((*document)->root(), top, decoding);

  WireCall call;
  ir::Request& request = call.request;
  fields.string("model", Limit::kModelBytes, request.model);
  decode_wire_prompt(fields, request.prompt);
  decode_wire_stream(fields, call);
  decode_sampling(fields, request.sampling);
  decode_stopping(fields, request.stopping);
  if (!request.stopping.max_tokens)
    request.stopping.max_tokens = std::max(kMaxTokensInitial, request.stopping.min_tokens);
  std::vector<std::string> left_out;  // of a worker's log no business
  decode_hints(fields, request, left_out);
  request.hints.priority = -request.hints.priority;  // clipped far inside its range
  std::uint32_t logprobs = 0;
  if (fields.integer("logprobs", 0, static_cast<std::int64_t>(limits[Limit::kTopLogprobs]), logprobs)) {
    request.logprobs = logprobs;
  }
  fields.boolean("return_token_ids", call.return_token_ids);
  fields.boolean("return_tokens_as_token_ids", call.tokens_as_ids);
  fields.boolean("skip_special_tokens", call.skip_special_tokens);
  fields.boolean("include_stop_str_in_output", call.include_stop_string);
  fields.boolean("add_special_tokens", call.add_special_tokens);
  refuse_unserved_wire(fields);
  if (decoding.failed()) return decoding.fault();
  return call;
}

}  // namespace kvern::api
