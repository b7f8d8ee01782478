// What a request with several choices used: each prompt once, since its choices share it, and what every choice wrote.
#pragma once

#include <cstdint>

#include "ir/event.h"

namespace kvern::ir {

/// One request. A value; O(1) a choice.
class UsageSum {
 public:
  /// Choices of one prompt follow one another; there are `choices_per_prompt` (>= 1) of each.
  explicit UsageSum(std::uint32_t choices_per_prompt) : choices_per_prompt_(choices_per_prompt) {}
  /// Takes the usage of a choice, once each, in any order. Prompt and cached tokens count by the first choice of a
  /// prompt: the others find what that one computed.
  void add(std::uint32_t choice, const Usage& usage);
  /// So far. Cached tokens are absent once one prompt's are.
  const Usage& total() const noexcept { return total_; }

 private:
  std::uint32_t choices_per_prompt_;
  bool cached_known_ = true;
  Usage total_;
};

}  // namespace kvern::ir
