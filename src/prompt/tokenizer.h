// Tokenizer and Detokenizer ports, and the origin of text. Special tokens come only from text that the chat template
// wrote: a `<|im_end|>` inside a message is tokenised as the characters it is made of, so no input can forge a role.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace kvern::prompt {

enum class Origin : std::uint8_t { kTemplate, kData };

/// A piece of a rendered prompt. Adjacent pieces join without a border for the tokenizer, except where a special token
/// of template origin stands.
struct Span {
  std::string text;
  Origin origin = Origin::kTemplate;
  bool operator==(const Span&) const = default;
};

/// Thread-safe; the same text always gives the same tokens. Cost of encode: linear in bytes, and small for text seen
/// lately in the same `name_space`: whose text it is (a tenant's, and its salt's), so that nobody learns by the time
/// what another sent.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends nothing of its own (no BOS): what the template printed is what is tokenised.
  virtual Tokens encode(std::span<const Span> spans, std::string_view name_space = {}) const = 0;
  /// Plain text of data origin. `add_special` adds what the model expects around a raw prompt (BOS).
  virtual Tokens encode_text(std::string_view text, bool add_special, std::string_view name_space = {}) const = 0;
  /// The bytes of one token; a control token gives its text only when `special` is true. Pieces may split UTF-8.
  virtual std::string piece(TokenId token, bool special) const = 0;
  /// A token that is never made from data: control tokens, and markup such as `<tool_call>`.
  virtual bool is_special(TokenId token) const = 0;
  /// Ends an answer (EOS, end of turn...).
  virtual bool is_end(TokenId token) const = 0;
  virtual std::uint32_t size() const = 0;
  /// Bytes of the longest piece, so that n bytes of text are at least n / this many tokens: a prompt that cannot fit is
  /// refused before it is tokenised. 0: not known.
  virtual std::size_t piece_bytes_max() const { return 0; }
  bool in_range(TokenId token) const { return token >= 0 && static_cast<std::uint32_t>(token) < size(); }
};

}  // namespace kvern::prompt
