// The answer as a stream of typed events, the same for every dialect and engine. A request with several choices has a
// stream for each. Grammar (held by EventGrammar):
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
#include <vector>

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
  std::string worker;  // who runs it, where there are several
  bool operator==(const Start&) const = default;
};
struct BlockStart {
  std::uint32_t index = 0;
  BlockKind kind = BlockKind::kText;
  std::string call_id;  // kToolCall
  std::string name;     // kToolCall
  bool operator==(const BlockStart&) const = default;
};
/// A token of the answer and how likely it was: natural logarithms of the model's own distribution.
struct TokenLogprob {
  struct Alternative {
    std::string bytes;
    float logprob = 0;
    bool operator==(const Alternative&) const = default;
  };
  std::string bytes;  // the token's own; a character may be split over tokens
  float logprob = 0;
  std::vector<Alternative> top;  // the likeliest at its place, best first
  bool operator==(const TokenLogprob&) const = default;
};
/// Text, reasoning, or exact argument text. Valid UTF-8, never empty.
struct BlockDelta {
  std::uint32_t index = 0;
  std::string text;
  /// Only in text, and only if asked for: the tokens that this text is the first to show anything of, in order.
  std::vector<TokenLogprob> logprobs = {};
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
