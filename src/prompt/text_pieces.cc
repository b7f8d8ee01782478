#include "prompt/text_pieces.h"

namespace kvern::prompt {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::size_t next_piece(std::string_view text) {
  if (text.size() <= kPieceBytes) return text.size();
  // Letters on both sides of the space: no rule in use joins words, digits it may.
  for (std::size_t at = kPieceBytes; at > kPieceBytes / 2; --at) {
    if (text[at] == ' ' && is_letter(text[at - 1]) && at + 1 < text.size() && is_letter(text[at + 1])) return at;
  }
  for (std::size_t at = kPieceBytes; at > 1; --at) {
    if (text[at] == ' ' && !is_space(text[at - 1]) && at + 1 < text.size() && !is_space(text[at + 1])) return at;
  }
  std::size_t end = kPieceBytes;
  while (end > 1 && continues(text[end])) --end;
  return end;
}

}  // namespace kvern::prompt
