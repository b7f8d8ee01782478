#include "ir/event.h"

namespace kvern::ir {

const char* to_string(BlockKind kind) noexcept {
  switch (kind) {
    case BlockKind::kText: return "text";
    case BlockKind::kThinking: return "thinking";
    case BlockKind::kToolCall: return "tool_call";
  }
  return "text";
}

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kStopString: return "stop_string";
    case FinishReason::kLength: return "length";
    case FinishReason::kToolCalls: return "tool_calls";
  }
  return "stop";
}

}  // namespace kvern::ir
