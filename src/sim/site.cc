#include "sim/site.h"

#include <string>
#include <utility>

#include "pipeline/testing/byte_tokenizer.h"
#include "router/strategy.h"
#include "sim/draw.h"
#include "sim/sim_model.h"

namespace kvern::sim {
namespace {

constexpr std::uint32_t kWorkersMax = 4;
constexpr std::uint32_t kLoopsMax = 3;
constexpr std::size_t kPoolThreads = 2;
constexpr std::size_t kPoolWaitingMax = 4;

engine::SchedulerOptions draw_engine(Rng& rng) {
  engine::SchedulerOptions options;
  options.context_tokens = Site::kContextTokens;
  options.cells = Site::kContextTokens + kv::kBlockTokens * draw(rng, 0, chance(rng, 0.5) ? 8 : 48);
  options.sequences = draw(rng, 2, 8);
  options.batch_tokens = draw(rng, 16, 200);
  options.mixed_batch_tokens = draw(rng, 1, options.batch_tokens);
  // Each parked token takes two numbers (SimBackend::save): room for none, for some, for all.
  if (chance(rng, 0.7)) options.parked_bytes_max = std::size_t{16} * draw(rng, 16, 2 * Site::kContextTokens);
  options.waiting_max = draw(rng, 2, 16);
  return options;
}

WireOptions draw_wire(Rng& rng) {
  WireOptions wire;
  wire.together = chance(rng, 0.3);
  wire.delay_max = wire.delay_min + std::chrono::microseconds(draw(rng, 10, 30'000));
  wire.late_events = rng.uniform();
  return wire;
}

}  // namespace

Site::Site(World& world) : pipeline_metrics_(metrics_, "sim"), pool_(world, kPoolThreads, kPoolWaitingMax) {
  Rng rng = world.fork_rng();
  const std::uint32_t workers = draw(rng, 1, kWorkersMax);
  for (std::uint32_t i = 0; i < workers; ++i) {
    const auto options = draw_engine(rng);
    const auto wire = draw_wire(rng);
    engines_.push_back(std::make_shared<SimEngine>(world, "worker" + std::to_string(i), options, wire));
  }
  listed_.assign(workers, true);
  const auto strategies = router::strategies();
  auto strategy = strategies[rng.below(strategies.size())].make();
  const pipeline::FleetOptions options{.attempts_max = draw(rng, 1, kWorkersMax)};
  engine::ModelInfo info = engines_.front()->model();
  info.name = "sim";
  fleet_ = std::make_shared<pipeline::Fleet>(std::move(info), listed_workers(), std::move(strategy), options);
  auto model = std::make_shared<pipeline::Model>();
  model->name = "sim";
  model->context_tokens = kContextTokens;
  model->tokenizer = std::make_shared<SimTokenizer>();
  model->chat_template = std::make_shared<pipeline::testing::PlainTemplate>();
  model->engine = fleet_;
  model_ = std::move(model);
  const std::uint32_t loops = draw(rng, 1, kLoopsMax);
  for (std::uint32_t i = 0; i < loops; ++i) {
    loops_.push_back(std::make_unique<Loop>(world));
    loops_.back()->dispatcher =
        pipeline::Dispatcher::create(loops_.back()->executor, pool_, pipeline_metrics_,
                                     [ids = Rng(rng.next())]() mutable { return RequestId{ids.next()}; });
  }
}

std::vector<pipeline::Fleet::Worker> Site::listed_workers() const {
  std::vector<pipeline::Fleet::Worker> workers;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (listed_[i]) workers.push_back({engines_[i]->name(), engines_[i]});
  }
  return workers;
}

void Site::set_listed(std::size_t worker, bool listed) {
  listed_[worker] = listed;
  fleet_->set_workers(listed_workers());
}

}  // namespace kvern::sim
