// Chat answers as server-sent events: `chat.completion.chunk` objects, an error object where the stream fails half-way.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "api/dialect.h"

namespace kvern::api {

/// What every object of one answer repeats.
struct ChatHead {
  RequestId id;
  std::chrono::seconds created{};
  std::string model;
};

/// Chunks in OpenAI's order: the role first, then pieces, the finish reason last; with `include_usage` one more chunk
/// without choices. Cost per piece: copies of two prepared texts around the escaped one; no allocation once `out` is
/// large enough.
std::unique_ptr<Encoder> make_chat_stream(const ChatHead& head, bool include_usage);

/// "tool_calls" iff there were calls, "length" on a cut.
std::string_view chat_finish_reason(ir::FinishReason reason, bool has_calls) noexcept;

}  // namespace kvern::api
