// One event of vLLM's /v1/completions stream, read without a tree. The shape is that of vLLM 0.32
// (recordings/http.jsonl): {"choices": [{"index", "text", "logprobs", "finish_reason", "stop_reason",
// "prompt_token_ids", "token_ids"}], "usage"}; a failure in the middle is {"error": {"message", "code", ...}}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "engine/engine.h"

namespace kvern::engine {

struct ChunkUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::optional<std::uint32_t> cached_tokens;
};

struct Chunk {
  enum class Finish : std::uint8_t { kNone, kStop, kLength, kOther };

  bool has_choice = false;
  bool has_text = false;       // text that is not empty
  bool has_token_ids = false;  // an array, also an empty one
  StepTokens tokens;
  std::vector<TokenLogprob> logprobs;
  Finish finish = Finish::kNone;
  std::optional<TokenId> stop_token;  // stop_reason, where it is a token
  std::optional<ChunkUsage> usage;
  bool failed = false;  // an error instead
  std::int64_t error_code = 0;
  std::string error_type;  // for the log only; at most 64 bytes, escapes left in
};

/// False for what is no such event: broken JSON, wrong types, a choice other than the first, a token id that is none.
/// Echoed `prompt_token_ids` are passed over unparsed. Alternatives of log probabilities come sorted, best first.
bool read_chunk(std::string_view json, Chunk& chunk);

}  // namespace kvern::engine
