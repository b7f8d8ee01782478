#include "sim/virtual_executor.h"

#include <utility>

#include "sim/draw.h"

namespace kvern::sim {
namespace {

using std::chrono::microseconds;

// How late a loop gets to what is posted: at once, or after a turn of long work.
constexpr Duration kLatencyMax = microseconds(300);
constexpr Duration kBusyMax = std::chrono::milliseconds(20);
constexpr double kBusy = 0.02;

}  // namespace

void VirtualExecutor::post(std::function<void()> work) {
  posted_.push_back(std::move(work));
  if (turn_due_) return;
  turn_due_ = true;
  world_.after(draw(rng_, Duration(0), chance(rng_, kBusy) ? kBusyMax : kLatencyMax), [this] { turn(); });
}

void VirtualExecutor::post_after(Duration delay, std::function<void()> work) {
  world_.after(delay, [this, work = std::move(work)]() mutable { post(std::move(work)); });
}

void VirtualExecutor::turn() {
  // What this work posts belongs to the next turn.
  turn_due_ = false;
  std::vector<std::function<void()>> due;
  due.swap(posted_);
  for (auto& work : due) work();
}

}  // namespace kvern::sim
