// Finds given strings (special tokens) in text, leftmost first and longest there. Built once, then read by any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token.h"

namespace kvern::prompt {

class TokenMatcher {
 public:
  struct Match {
    std::size_t at = 0;
    std::size_t bytes = 0;  // 0: none found
    TokenId token = -1;
  };

  /// `spelling` is not empty. The first token of a spelling stays.
  void add(std::string_view spelling, TokenId token);
  bool empty() const { return nodes_.empty(); }
  /// The first match at or after `from`. O(bytes looked at times the longest spelling that begins there).
  Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    TokenId token = -1;
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;                 // a trie; 0 is its root
  std::array<std::uint32_t, 256> roots_{};  // children of the root; 0: none
};

}  // namespace kvern::prompt
