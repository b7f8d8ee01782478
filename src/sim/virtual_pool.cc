#include "sim/virtual_pool.h"

#include <utility>

#include "sim/draw.h"

namespace kvern::sim {
namespace {

constexpr Duration kWorkMin = std::chrono::microseconds(50);
constexpr Duration kWorkMax = std::chrono::milliseconds(40);

}  // namespace

bool VirtualPool::try_run(std::function<void()> work) {
  if (threads_idle_ > 0) {
    --threads_idle_;
    run(std::move(work));
    return true;
  }
  if (waiting_.size() >= waiting_max_) return false;
  waiting_.push_back(std::move(work));
  return true;
}

void VirtualPool::run(std::function<void()> work) {
  world_.after(draw(rng_, kWorkMin, kWorkMax), [this, work = std::move(work)] {
    work();
    if (waiting_.empty()) {
      ++threads_idle_;
      return;
    }
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    run(std::move(next));
  });
}

}  // namespace kvern::sim
