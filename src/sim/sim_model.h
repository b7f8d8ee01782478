// The model of the simulated engines: a vocabulary, and an answer that is a pure function of all tokens before it. So a
// token that is lost, doubled or another request's shows in the text, and a checker knows every answer beforehand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/token.h"
#include "ir/event.h"
#include "ir/request.h"
#include "prompt/tokenizer.h"

namespace kvern::sim {

/// Words of three letters out of twelve, then the 256 bytes, then the end of an answer.
inline constexpr std::string_view kLetters = "abcdefghijkl";
inline constexpr TokenId kWords = 12 * 12 * 12;
inline constexpr TokenId kFirstByte = kWords;
inline constexpr TokenId kEndToken = kFirstByte + 256;

/// Reads three letters as a word, what is none byte by byte. Nothing is special but the end.
class SimTokenizer final : public prompt::Tokenizer {
 public:
  Tokens encode(std::span<const prompt::Span> spans, std::string_view name_space = {}) const override;
  Tokens encode_text(std::string_view text, bool add_special, std::string_view name_space = {}) const override;
  std::string piece(TokenId token, bool special) const override;
  bool is_special(TokenId token) const override { return token == kEndToken; }
  bool is_end(TokenId token) const override { return token == kEndToken; }
  std::uint32_t size() const override { return kEndToken + 1; }
  std::size_t piece_bytes_max() const override { return 3; }
};

/// All that was read so far, as a number.
using ModelState = std::uint64_t;
inline constexpr ModelState kNothingRead = 0x9E3779B97F4A7C15ULL;

ModelState read(ModelState state, TokenId token) noexcept;
/// The next token: mostly words, sometimes half a character, about every fiftieth the end unless that may not be.
TokenId next_token(ModelState state, bool may_stop) noexcept;

/// What a client gets when nothing breaks.
struct ExpectedAnswer {
  std::string text;
  ir::FinishReason reason = ir::FinishReason::kStop;
  std::string stop_string;
  std::uint32_t completion_tokens = 0;
};
/// Follows the words of ir::Stopping and vLLM's rules, independently of engine and pipeline: token by token, and stop
/// strings by searching the whole text. `max_tokens` is resolved.
ExpectedAnswer expected_answer(std::span<const TokenId> prompt, std::uint32_t max_tokens, const ir::Stopping& stopping);

}  // namespace kvern::sim
