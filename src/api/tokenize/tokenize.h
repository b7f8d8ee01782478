// POST /tokenize and /detokenize, with vLLM's bodies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/limits.h"
#include "base/result.h"
#include "base/token.h"
#include "ir/request.h"

namespace kvern::api {

/// A decoded /tokenize. `request.prompt` holds the text, or the messages to render (with `tools` and options).
struct TokenizeCall {
  ir::Request request;
  /// Whether the tokenizer adds what it puts around a raw prompt. Absent: yes for text, no for messages.
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
};
Result<TokenizeCall> decode_tokenize(std::string_view body, const Limits& limits);

/// {"count", "max_model_len", "tokens", "token_strs"}; the last null without `token_strs`, whose bytes need be
/// no text: half a character is shown as `\xE2` for each byte.
std::string render_tokenize(std::span<const TokenId> tokens, std::uint32_t max_model_len,
                            const std::vector<std::string>* token_strs);

struct DetokenizeCall {
  std::string model;
  Tokens tokens;
};
Result<DetokenizeCall> decode_detokenize(std::string_view body, const Limits& limits);

/// {"prompt"}. `text` is valid UTF-8.
std::string render_detokenize(std::string_view text);

}  // namespace kvern::api
