// Deadlines of thousands of connections at constant cost: each kind has one duration, so its list, filled in order of
// time, has the next to pass in front. No timer and no heap entry per connection. One loop.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <optional>

#include "base/clock.h"

namespace kvern::net {

enum class DeadlineKind { kIdle, kHeader, kBody, kWrite, kLinger };
inline constexpr std::size_t kDeadlineKinds = 5;

/// Base of what has a deadline; at most one at a time. Leaves its list when destroyed.
struct Deadline : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  DeadlineKind kind = DeadlineKind::kIdle;
  TimePoint at{};
  bool armed() const { return is_linked(); }
  void disarm() { unlink(); }
};

class DeadlineLists {
 public:
  explicit DeadlineLists(std::array<Duration, kDeadlineKinds> durations) : durations_(durations) {}
  ~DeadlineLists() {
    for (auto& list : lists_) list.clear();
  }
  DeadlineLists(const DeadlineLists&) = delete;
  DeadlineLists& operator=(const DeadlineLists&) = delete;

  /// Starts a deadline of `kind` now, in place of the one it had.
  void arm(Deadline& deadline, DeadlineKind kind, TimePoint now) {
    deadline.unlink();
    deadline.kind = kind;
    deadline.at = now + durations_.at(static_cast<std::size_t>(kind));
    lists_.at(static_cast<std::size_t>(kind)).push_back(deadline);
  }
  /// Takes out one deadline that has passed, or nothing.
  Deadline* pop_passed(TimePoint now) {
    for (auto& list : lists_) {
      if (!list.empty() && list.front().at <= now) {
        Deadline& passed = list.front();
        passed.unlink();
        return &passed;
      }
    }
    return nullptr;
  }
  /// When the next one passes.
  std::optional<TimePoint> next() const {
    std::optional<TimePoint> first;
    for (const auto& list : lists_) {
      if (!list.empty() && (!first || list.front().at < *first)) first = list.front().at;
    }
    return first;
  }

 private:
  using List = boost::intrusive::list<Deadline, boost::intrusive::constant_time_size<false>>;
  std::array<Duration, kDeadlineKinds> durations_;
  std::array<List, kDeadlineKinds> lists_;
};

}  // namespace kvern::net
