#include "api/messages/messages_answer.h"

#include "base/json_writer.h"

namespace kvern::api {

std::string_view stop_reason(ir::FinishReason reason) noexcept {
  switch (reason) {
    case ir::FinishReason::kStop: return "end_turn";
    case ir::FinishReason::kStopString: return "stop_sequence";
    case ir::FinishReason::kLength: return "max_tokens";
    case ir::FinishReason::kToolCalls: return "tool_use";
  }
  return "end_turn";
}

void append_stop(const ir::End& end, std::string& out) {
  out += R"("stop_reason":")";
  out += stop_reason(end.reason);
  out += R"(","stop_sequence":)";
  end.reason == ir::FinishReason::kStopString ? json::append_quoted(out, end.stop_string) : void(out += "null");
}

void append_messages_usage(const ir::Usage& usage, std::string& out) {
  const std::uint32_t cached = usage.cached_tokens.value_or(0);
  json::Writer writer(out);
  writer.begin_object();
  writer.member("input_tokens", usage.prompt_tokens - cached);
  writer.member("cache_creation_input_tokens", 0);
  writer.member("cache_read_input_tokens", cached);
  writer.key("cache_creation").begin_object();
  writer.member("ephemeral_5m_input_tokens", 0).member("ephemeral_1h_input_tokens", 0).end_object();
  writer.member("output_tokens", usage.completion_tokens);
  writer.end_object();
}

void append_message_head(const MessageHead& head, std::string& out) {
  out += R"({"id":"msg_)" + hex64(head.id.value) + R"(","type":"message","role":"assistant","model":)";
  json::append_quoted(out, head.model);
}

}  // namespace kvern::api
