// Log probabilities in OpenAI's two forms. A token that is no UTF-8 of its own (half a character) is shown with `\xE2`
// for each such byte, so that distinct tokens look distinct; what has no logarithm (a probability of 0) is -9999.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/event.h"

namespace kvern::api {

/// A token's bytes as a JSON string, in the form above.
void append_token_text(std::string_view bytes, std::string& out);

/// Chat: {"token", "logprob", "bytes", "top_logprobs"} for each, with commas between; a comma first where `out` ends
/// with an object already.
void append_chat_logprobs(std::span<const ir::TokenLogprob> tokens, std::string& out);

/// Completions: four lists side by side, collected for one choice. `text_offset` counts characters from the start of
/// the answer, over all documents made of it.
class CompletionLogprobs {
 public:
  void add(std::span<const ir::TokenLogprob> tokens);
  /// {"text_offset", "token_logprobs", "tokens", "top_logprobs"} of what came since the last call.
  void take(std::string& out);

 private:
  std::uint64_t characters_ = 0;
  std::string offsets_;
  std::string logprobs_;
  std::string tokens_;
  std::string top_;
};

}  // namespace kvern::api
