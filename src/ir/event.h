// The answer as a stream of typed events, the same for every dialect and engine. Grammar (held by EventGrammar):
//
//   stream = Start { BlockStart { BlockDelta } BlockStop } ( End | Failure )
//          | [ Start { BlockStart { BlockDelta } [ BlockStop ] } ] Failure
//
// Blocks are numbered 0, 1, 2... and never overlap. Exactly one End or Failure closes a stream; nothing follows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"

namespace kvern::ir {

enum class BlockKind : std::uint8_t { kText, kThinking, kToolCall };
const char* to_string(BlockKind kind) noexcept;

enum class FinishReason : std::uint8_t { kStop, kStopString, kLength, kToolCalls };
const char* to_string(FinishReason reason) noexcept;

/// Tokens, counted by the engine. `cached_tokens` <= `prompt_tokens`; absent where the engine does not say.
struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached_tokens;
  std::uint32_t completion_tokens = 0;
  std::uint32_t reasoning_tokens = 0;
  bool operator==(const Usage&) const = default;
};

/// The engine took the request: its prompt's length is known from here on.
struct Start {
  Usage usage;
  bool operator==(const Start&) const = default;
};
struct BlockStart {
  std::uint32_t index = 0;
  BlockKind kind = BlockKind::kText;
  std::string call_id;  // kToolCall
  std::string name;     // kToolCall
  bool operator==(const BlockStart&) const = default;
};
/// Text, reasoning, or exact argument text. Valid UTF-8, never empty.
struct BlockDelta {
  std::uint32_t index = 0;
  std::string text;
  bool operator==(const BlockDelta&) const = default;
};
struct BlockStop {
  std::uint32_t index = 0;
  bool operator==(const BlockStop&) const = default;
};
struct End {
  FinishReason reason = FinishReason::kStop;
  std::string stop_string;  // kStopString: the one that matched
  Usage usage;
  bool operator==(const End&) const = default;
};
struct Failure {
  Error error;
  bool operator==(const Failure&) const = default;
};

using Event = std::variant<Start, BlockStart, BlockDelta, BlockStop, End, Failure>;

}  // namespace kvern::ir
