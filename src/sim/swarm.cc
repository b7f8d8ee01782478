#include "sim/swarm.h"

#include <algorithm>
#include <memory>
#include <string>

#include "sim/draw.h"
#include "sim/faults.h"
#include "sim/session.h"
#include "sim/site.h"

namespace kvern::sim {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kSessionsMin = 2;
constexpr std::uint32_t kSessionsMax = 12;
constexpr std::uint32_t kCrowdMax = 30;  // in some runs
constexpr Duration kThinkMeanMin = std::chrono::milliseconds(50);
constexpr Duration kThinkMeanMax = seconds(3);
constexpr Duration kFaultsFor = seconds(20);
// The timeouts of adapters are over by then, and whoever shuns a worker has tried it again.
constexpr Duration kCalmAfter = seconds(120);
// Bounds liveness: the slowest sound drain takes a third of it.
constexpr Duration kDrainedWithin = seconds(900);

class Swarm final : public CallObserver {
 public:
  Swarm(std::uint64_t seed, std::FILE* print) : world_(seed, print), site_(world_), findings_(world_) {
    checkers_.push_back(make_one_end(findings_));
    checkers_.push_back(make_event_grammar(findings_));
    checkers_.push_back(make_no_leaks(findings_));
    checkers_.push_back(make_exact_answer(findings_));
    checkers_.push_back(make_true_events(findings_));
    result_.seed = seed;
  }
  // What waits may own anything, so it goes first.
  ~Swarm() override { world_.clear(); }
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;

  SwarmResult run();

  void on_started(const Call& call) override {
    for (const auto& checker : checkers_) checker->on_started(call);
  }
  void on_event(const Call& call, std::uint32_t choice, const ir::Event& event) override {
    for (const auto& checker : checkers_) checker->on_event(call, choice, event);
  }
  void on_gone(const Call& call) override {
    for (const auto& checker : checkers_) checker->on_gone(call);
  }

 private:
  void begin();
  void drain();
  bool all_done() const {
    return std::ranges::all_of(sessions_, [](const auto& session) { return session->done(); });
  }

  World world_;
  Site site_;
  Findings findings_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::unique_ptr<Faults> faults_;
  SwarmResult result_;
};

void Swarm::begin() {
  for (const auto& engine : site_.engines()) {
    SimWorker& worker = engine->worker();
    worker.on_idle([this, &worker] {
      for (const auto& checker : checkers_) checker->on_idle(worker);
    });
  }
  Rng rng = world_.fork_rng();
  const SessionPlan plan{.heal = world_.now() + kFaultsFor,
                         .calm = world_.now() + kFaultsFor + kCalmAfter,
                         .think_mean = draw(rng, kThinkMeanMin, kThinkMeanMax)};
  const bool crowd = chance(rng, 0.3);
  const std::uint32_t sessions = draw(rng, kSessionsMin, crowd ? kCrowdMax : kSessionsMax);
  for (std::uint32_t i = 0; i < sessions; ++i) {
    sessions_.push_back(
        std::make_shared<Session>(world_, site_, *this, result_.tally, plan, "client" + std::to_string(i)));
    sessions_.back()->begin();
  }
  faults_ = std::make_unique<Faults>(world_, site_, result_.tally);
  faults_->begin(plan.heal);
}

void Swarm::drain() {
  const TimePoint bound = world_.now() + kDrainedWithin;
  while (!all_done() && world_.now() < bound && findings_.all().empty()) {
    if (world_.run(world_.now() + seconds(1)) == World::Outcome::kTooMany) {
      findings_.add("swarm", "something goes round in circles");
    }
  }
  // What was cancelled last has time to be gone, late events to come.
  if (findings_.all().empty()) world_.run(world_.now() + seconds(5));
  if (!findings_.all().empty()) return;
  for (const auto& checker : checkers_) checker->on_drained(site_);
}

SwarmResult Swarm::run() {
  begin();
  world_.run(world_.now() + kFaultsFor);
  drain();
  for (const auto& engine : site_.engines()) {
    result_.tally.add(Happening::kCancelWaiting, engine->cancels().waiting);
    result_.tally.add(Happening::kCancelInPrefill, engine->cancels().in_prefill);
    result_.tally.add(Happening::kCancelInText, engine->cancels().in_text);
    result_.tally.add(Happening::kPreemption, engine->worker().preemptions());
    result_.tally.add(Happening::kCachedToken, engine->worker().cached_tokens());
  }
  result_.tally.add(Happening::kRetry, site_.fleet().retries());
  result_.findings = findings_.all();
  result_.trace_hash = world_.trace().hash();
  return std::move(result_);
}

}  // namespace

SwarmResult run_swarm(std::uint64_t seed, std::FILE* print) { return Swarm(seed, print).run(); }

}  // namespace kvern::sim
