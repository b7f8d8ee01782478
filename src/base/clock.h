// Time as a parameter. Core rooms take `now` with each step; only edges hold a Clock. All deadlines use the monotonic
// clock, so a jump of the wall clock moves none of them; the wall clock serves log stamps and `created` fields.
#pragma once

#include <chrono>

namespace kvern {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Source of time. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic; for deadlines and durations.
  virtual TimePoint now() const = 0;
  /// Since the Unix epoch; for what people and protocols read.
  virtual std::chrono::milliseconds unix_milliseconds() const = 0;
  std::chrono::seconds unix_time() const { return std::chrono::floor<std::chrono::seconds>(unix_milliseconds()); }
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::milliseconds unix_milliseconds() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  }
};

/// A clock that moves only when told; one thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::chrono::milliseconds unix_milliseconds() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch());
  }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

}  // namespace kvern
