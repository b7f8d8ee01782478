// Checks that a stream of events keeps the grammar stated in ir/event.h. Runs in tests, in debug builds behind every
// producer, and in the simulator as a checker. O(1) per event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/event.h"

namespace kvern::ir {

/// One stream; any thread, one at a time.
class EventGrammar {
 public:
  /// Takes the next event. Returns what is wrong with it, or nullopt. After a fault the state is unchanged.
  std::optional<std::string> accept(const Event& event);
  /// True once End or Failure came.
  bool complete() const noexcept { return state_ == State::kDone; }

 private:
  enum class State : std::uint8_t { kBeforeStart, kBetweenBlocks, kInBlock, kDone };
  State state_ = State::kBeforeStart;
  std::uint32_t next_index_ = 0;
};

}  // namespace kvern::ir
