// Virtual time: a queue of what is going to happen, a clock that jumps from one event to the next, and one seed from
// which everything is drawn. A run is a pure function of the seed and the code. What happens at the same instant comes
// in an order drawn from the seed, since real life promises none. One thread; O(log n) an event.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/trace.h"

namespace kvern::sim {

class World {
 public:
  using Work = std::function<void()>;
  enum class Outcome : std::uint8_t {
    kQuiet,    // nothing is left to happen
    kTime,     // the time given is over
    kStopped,  // stop() was called
    kTooMany,  // more events than any sound run has: something goes round in circles
  };

  World(std::uint64_t seed, std::FILE* print) : rng_(seed), trace_(print) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Clock& clock() const { return clock_; }
  TimePoint now() const { return clock_.now(); }
  /// Randomness of its own for a part, so that what one draws does not change what another gets.
  Rng fork_rng() { return Rng(rng_.next()); }

  void at(TimePoint when, Work work);
  void after(Duration delay, Work work) { at(now() + delay, std::move(work)); }

  /// Lets everything happen that is due up to `until`, then sets the clock to it.
  Outcome run(TimePoint until);
  /// run() returns before the next event, now and from now on.
  void stop() { stopped_ = true; }
  /// Drops what is left to happen. Call it while everything that work may own or touch is still there.
  void clear() { queue_.clear(); }

  template <typename... Args>
  void note(std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
    trace_.line(now(), who, format, std::forward<Args>(args)...);
  }
  const Trace& trace() const { return trace_; }

 private:
  struct Event {
    TimePoint when;
    std::uint64_t tie;
    std::uint64_t serial;  // ties of ties, so that the order is total
    Work work;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.when, a.tie, a.serial) > std::tie(b.when, b.tie, b.serial);
    }
  };

  ManualClock clock_;
  Rng rng_;
  Trace trace_;
  std::vector<Event> queue_;  // a heap by Later
  std::uint64_t serial_ = 0;
  std::uint64_t happened_ = 0;
  bool stopped_ = false;
};

}  // namespace kvern::sim
