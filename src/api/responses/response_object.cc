#include "api/responses/response_object.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

void write_usage(const ir::Usage& usage, json::Writer& writer) {
  writer.key("usage").begin_object().member("input_tokens", usage.prompt_tokens);
  // Engines do not tell how much they wrote to their caches.
  writer.key("input_tokens_details").begin_object();
  writer.member("cached_tokens", usage.cached_tokens.value_or(0)).member("cache_write_tokens", 0).end_object();
  writer.member("output_tokens", usage.completion_tokens);
  writer.key("output_tokens_details").begin_object().member("reasoning_tokens", usage.reasoning_tokens).end_object();
  writer.member("total_tokens", std::int64_t{usage.prompt_tokens} + usage.completion_tokens).end_object();
}

void write_error(const Error& error, json::Writer& writer) {
  std::string message = error.code == ErrorCode::kInternal ? "The server failed on this request." : error.message;
  // Codex waits for as long as it reads here.
  if (error.retry_after) message += fmt::format(" Please try again in {}s.", error.retry_after->count());
  writer.begin_object().member("code", failure_code(error)).member("message", message).end_object();
}

}  // namespace

const char* failure_code(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::kContextLength: return "context_length_exceeded";
    case ErrorCode::kOverloaded: return "rate_limit_exceeded";
    case ErrorCode::kInvalidRequest: return "invalid_prompt";
    default: return "server_error";
  }
}

const char* status_of(const ResponseState& state) noexcept {
  if (state.failure != nullptr) return "failed";
  if (state.end == nullptr) return "in_progress";
  return state.end->reason == ir::FinishReason::kLength ? "incomplete" : "completed";
}

void append_response(const ResponsePlan& plan, const ResponseState& state, std::string& out) {
  json::Writer writer(out);
  const bool ended = state.end != nullptr;
  const bool incomplete = ended && state.end->reason == ir::FinishReason::kLength;
  writer.begin_object().member("id", "resp_" + hex64(plan.id.value)).member("object", "response");
  writer.member("created_at", plan.created.count()).key("completed_at");
  ended && !incomplete ? writer.value(plan.clock->unix_time().count()) : writer.null();
  writer.member("status", status_of(state)).key("incomplete_details");
  incomplete ? writer.begin_object().member("reason", "max_output_tokens").end_object() : writer.null();
  writer.member("model", plan.model).key("error");
  if (state.failure != nullptr) {
    write_error(*state.failure, writer);
  } else {
    writer.null();
  }
  writer.key("output");
  state.items->write_all(writer);
  if (ended) {
    write_usage(state.end->usage, writer);
  } else {
    writer.key("usage").null();
  }
  if (!state.extension.empty()) writer.key("nvext").raw(state.extension);
  out += ',';
  out += plan.echo;
  out.back() = '}';
}

}  // namespace kvern::api
