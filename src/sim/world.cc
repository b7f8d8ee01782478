#include "sim/world.h"

#include <algorithm>

namespace kvern::sim {
namespace {

// The largest swarm seed has a few ten thousand.
constexpr std::uint64_t kEventsMax = 5'000'000;

}  // namespace

void World::at(TimePoint when, Work work) {
  queue_.push_back(Event{std::max(when, now()), rng_.next(), serial_++, std::move(work)});
  std::ranges::push_heap(queue_, Later{});
}

World::Outcome World::run(TimePoint until) {
  while (!queue_.empty() && queue_.front().when <= until) {
    if (stopped_) return Outcome::kStopped;
    if (++happened_ > kEventsMax) return Outcome::kTooMany;
    std::ranges::pop_heap(queue_, Later{});
    Event event = std::move(queue_.back());
    queue_.pop_back();
    clock_.advance(event.when - now());
    event.work();
  }
  if (stopped_) return Outcome::kStopped;
  if (until > now()) clock_.advance(until - now());
  return queue_.empty() ? Outcome::kQuiet : Outcome::kTime;
}

}  // namespace kvern::sim
