// The Executor of virtual time: one simulated event loop. What was posted runs in the order posted, all of one turn
// together, a little later; what two loops do is not ordered. That delay is where real loops race with engine threads.
#pragma once

#include <functional>
#include <vector>

#include "base/executor.h"
#include "sim/world.h"

namespace kvern::sim {

class VirtualExecutor final : public Executor {
 public:
  /// `world` outlives it, and is cleared before it goes.
  explicit VirtualExecutor(World& world) : world_(world), rng_(world.fork_rng()) {}

  void post(std::function<void()> work) override;
  void post_after(Duration delay, std::function<void()> work) override;
  const Clock& clock() const override { return world_.clock(); }

 private:
  void turn();

  World& world_;
  Rng rng_;
  std::vector<std::function<void()>> posted_;
  bool turn_due_ = false;
};

}  // namespace kvern::sim
