#include "prompt/detokenizer.h"

#include <cstddef>

namespace kvern::prompt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// What stands at the head of some bytes: a whole character, the beginning of one, or bytes that can be none.
struct Head {
  enum class Kind : unsigned char { kWhole, kUnfinished, kBroken } kind;
  std::size_t bytes;
};

/// Follows Unicode's table of well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). Broken
/// bytes are the longest head of a character that is not continued, or one byte.
Head head_of(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {Head::Kind::kWhole, 1};
  if (first < 0xC2 || first > 0xF4) return {Head::Kind::kBroken, 1};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Head::Kind::kUnfinished, i};
    const auto next = static_cast<unsigned char>(text[i]);
    if (next < low || next > high) return {Head::Kind::kBroken, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Head::Kind::kWhole, length};
}

}  // namespace

void Detokenizer::add(TokenId token, std::string& out) { add_bytes(tokenizer_->piece(token, special_), out); }

void Detokenizer::add_bytes(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
    held_.clear();
  }
  std::size_t whole = 0;  // leading bytes that are whole characters, not yet appended
  while (whole < bytes.size()) {
    const Head head = head_of(bytes.substr(whole));
    if (head.kind == Head::Kind::kWhole) {
      whole += head.bytes;
      continue;
    }
    out += bytes.substr(0, whole);
    bytes.remove_prefix(whole);
    whole = 0;
    if (head.kind == Head::Kind::kUnfinished) {
      held_ = bytes;
      return;
    }
    out += kReplacement;
    bytes.remove_prefix(head.bytes);
  }
  out += bytes.substr(0, whole);
}

void Detokenizer::finish(std::string& out) {
  if (held_.empty()) return;
  held_.clear();
  out += kReplacement;
}

}  // namespace kvern::prompt
