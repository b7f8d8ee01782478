#include "prompt/token_matcher.h"

namespace kvern::prompt {

std::uint32_t TokenMatcher::child(std::uint32_t node, unsigned char byte) const {
  for (const auto& [key, next] : nodes_[node].next) {
    if (key == byte) return next;
  }
  return 0;
}

void TokenMatcher::add(std::string_view spelling, TokenId token) {
  if (nodes_.empty()) nodes_.emplace_back();
  std::uint32_t node = 0;
  for (const char c : spelling) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = node == 0 ? roots_[byte] : child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0) {
        roots_[byte] = next;
      } else {
        nodes_[node].next.emplace_back(byte, next);
      }
    }
    node = next;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

TokenMatcher::Match TokenMatcher::find(std::string_view text, std::size_t from) const {
  if (nodes_.empty()) return {};
  for (std::size_t at = from; at < text.size(); ++at) {
    std::uint32_t node = roots_[static_cast<unsigned char>(text[at])];
    Match best;
    for (std::size_t end = at + 1; node != 0; ++end) {
      if (nodes_[node].token >= 0) best = {at, end - at, nodes_[node].token};
      if (end == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
    if (best.bytes > 0) return best;
  }
  return {};
}

}  // namespace kvern::prompt
