// The script of the scripted engine: one JSON object a line, answered in order.
//
//   {"match"?: text in the prompt, "text" | "token_ids" | "chunks": …, "finish": "stop|length|error|die|overloaded",
//    "ttft_ms": 0, "itl_ms": 0, "repeat"?: true, "logprobs"?: [{"logprob": -0.5, "top"?: [[token id, -0.5], …]}, …]}
//
// `overloaded` refuses the request as a full engine does, and needs no answer.
// `ttft_ms` is before the first token, `itl_ms` between two. Streams of one itl_ms go in step, as in an engine that
// batches them, so the first gap of a stream may be half of it shorter or longer.
// `logprobs` has an entry for each token, the last of which stands for all that follow; requests that ask for log
// probabilities get them. Blank lines and lines starting with '#' are skipped. An unknown key, a wrong type or a
// missing answer is an error that names the line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "engine/engine.h"

namespace kvern::engine {

enum class ScriptFinish : std::uint8_t { kStop, kLength, kError, kDie, kOverloaded };

struct ScriptLine {
  std::string match;  // empty: matches every prompt
  // Exactly one of the three is the answer; kOverloaded has none.
  std::optional<std::string> text;
  std::optional<Tokens> token_ids;
  std::optional<std::vector<std::string>> chunks;
  ScriptFinish finish = ScriptFinish::kStop;
  std::chrono::milliseconds ttft{0};
  std::chrono::milliseconds itl{0};
  bool repeat = false;
  std::vector<TokenLogprob> logprobs;  // empty: none are known
};

/// Parses a whole script; at most 100,000 lines.
Result<std::vector<ScriptLine>> parse_script(std::string_view text);

/// Which line answers next. One thread.
class Script {
 public:
  explicit Script(std::vector<ScriptLine> lines) : lines_(std::move(lines)), used_(lines_.size(), false) {}
  /// The first unused line without `repeat` whose match is in `prompt`; only then the first matching `repeat` line,
  /// which is never used up; nullptr when the script is exhausted. The pointer lives as long as the script.
  const ScriptLine* take(std::string_view prompt);

 private:
  const std::vector<ScriptLine> lines_;
  std::vector<bool> used_;
  std::size_t first_unused_ = 0;  // every plain line before it is used
};

}  // namespace kvern::engine
