// The Pool of virtual time: a few threads, a bounded queue, work that takes a while and ends in any order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "base/pool.h"
#include "sim/world.h"

namespace kvern::sim {

class VirtualPool final : public Pool {
 public:
  /// `world` outlives it, and is cleared before it goes.
  VirtualPool(World& world, std::size_t threads, std::size_t waiting_max)
      : world_(world), rng_(world.fork_rng()), threads_idle_(threads), waiting_max_(waiting_max) {}

  bool try_run(std::function<void()> work) override;

 private:
  void run(std::function<void()> work);

  World& world_;
  Rng rng_;
  std::size_t threads_idle_;
  const std::size_t waiting_max_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace kvern::sim
