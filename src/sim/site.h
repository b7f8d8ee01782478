// A small kvern in virtual time: production dispatchers on simulated loops, a pool, one served model, simulated
// workers. Sizes and wires are drawn from the seed; caches are small, so that eviction and preemption are daily events.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "pipeline/dispatcher.h"
#include "pipeline/fleet.h"
#include "pipeline/metrics.h"
#include "pipeline/model.h"
#include "sim/sim_engine.h"
#include "sim/virtual_executor.h"
#include "sim/virtual_pool.h"
#include "sim/world.h"

namespace kvern::sim {

class Site {
 public:
  static constexpr std::uint32_t kContextTokens = 448;

  struct Loop {
    explicit Loop(World& world) : executor(world) {}
    VirtualExecutor executor;
    std::shared_ptr<pipeline::Dispatcher> dispatcher;
  };

  /// `world` outlives it, and is cleared before it goes.
  explicit Site(World& world);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const std::vector<std::unique_ptr<Loop>>& loops() const { return loops_; }
  const std::vector<std::shared_ptr<SimEngine>>& engines() const { return engines_; }
  const std::shared_ptr<const pipeline::Model>& model() const { return model_; }
  const pipeline::Fleet& fleet() const { return *fleet_; }

  /// Takes a worker out of the fleet, or brings it back; what runs on it goes on.
  void set_listed(std::size_t worker, bool listed);

 private:
  std::vector<pipeline::Fleet::Worker> listed_workers() const;

  Metrics metrics_;
  pipeline::PipelineMetrics pipeline_metrics_;
  VirtualPool pool_;
  std::vector<std::shared_ptr<SimEngine>> engines_;
  std::vector<bool> listed_;
  std::shared_ptr<pipeline::Fleet> fleet_;
  std::shared_ptr<const pipeline::Model> model_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace kvern::sim
