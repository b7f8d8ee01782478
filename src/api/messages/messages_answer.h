// What the streamed and the whole answer of Messages share.
#pragma once

#include <string>
#include <string_view>

#include "base/strong_id.h"
#include "ir/event.h"

namespace kvern::api {

struct MessageHead {
  RequestId id;
  std::string model;
  bool hide_thinking = false;  // send signatures in place of its text
};

/// end_turn, stop_sequence, max_tokens or tool_use.
std::string_view stop_reason(ir::FinishReason reason) noexcept;
/// Appends `"stop_reason": ..., "stop_sequence": ...` without braces.
void append_stop(const ir::End& end, std::string& out);
/// Appends the usage object. Its three kinds of input tokens are disjoint: their sum is the prompt. What the engine
/// does not say of its cache counts as computed.
void append_messages_usage(const ir::Usage& usage, std::string& out);
/// Appends the message up to its content: `{"id": ..., "role": "assistant", "model": ...`.
void append_message_head(const MessageHead& head, std::string& out);

}  // namespace kvern::api
