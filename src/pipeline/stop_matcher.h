// Stop strings in a stream of text, in any split. Text that may still become a stop string is held back; a match ends
// the answer before the stop string's first byte. The string that is complete first wins, of two complete at the same
// byte the longer. O(stop strings) a byte (Knuth-Morris-Pratt).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::pipeline {

/// One answer. Strings are not empty.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> strings);
  /// Takes text, appends to `out` what can no longer be part of a stop string. Returns the stop string once one
  /// matched; nothing may be added after that.
  std::optional<std::string> add(std::string_view text, std::string& out);
  /// Ends the answer: what was held back is text after all.
  void finish(std::string& out);
  bool empty() const { return patterns_.empty(); }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> failure;
    std::size_t matched = 0;
  };
  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace kvern::pipeline
