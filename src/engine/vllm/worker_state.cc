#include "engine/vllm/worker_state.h"

#include <algorithm>
#include <utility>

namespace kvern::engine {
namespace {

constexpr std::uint32_t kStrikes = 3;
constexpr auto kBenchFirst = std::chrono::seconds(1);
constexpr auto kBenchMost = std::chrono::seconds(30);

}  // namespace

WorkerState::WorkerState(VllmOptions options, const Clock& clock, Log& log)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      last_sign_(clock.now().time_since_epoch().count()),
      facts_(options_.facts) {}

bool WorkerState::enter() {
  if (active_.fetch_add(1, std::memory_order_relaxed) < options_.active_max) return true;
  leave();
  return false;
}

void WorkerState::heard(TimePoint now) {
  last_sign_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  if (!reachable()) set_reachable(true, {});
}

void WorkerState::succeeded(std::uint32_t prompt_tokens, std::optional<std::uint32_t> cached_tokens) {
  strikes_.store(0, std::memory_order_relaxed);
  prompt_tokens_.fetch_add(prompt_tokens, std::memory_order_relaxed);
  if (!cached_tokens) return;
  tells_cached_.store(true, std::memory_order_relaxed);
  cached_tokens_.fetch_add(*cached_tokens, std::memory_order_relaxed);
}

void WorkerState::failed() {
  const std::uint32_t strikes = strikes_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (strikes < kStrikes) return;
  const auto bench = std::min<Duration>(kBenchFirst * (1U << std::min(strikes - kStrikes, 5U)), kBenchMost);
  benched_until_.store((now() + bench).time_since_epoch().count(), std::memory_order_relaxed);
  log_.warn("worker benched", {{"worker", options_.name},
                               {"failures", strikes},
                               {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(bench).count()}});
}

void WorkerState::unreachable() { set_reachable(false, "cannot connect to the worker"); }

void WorkerState::passed_probe(const WorkerFacts* facts) {
  last_sign_.store(now().time_since_epoch().count(), std::memory_order_relaxed);
  if (facts != nullptr) {
    const std::lock_guard lock(mutex_);
    facts_ = *facts;
  }
  if (!reachable()) set_reachable(true, {});
}

void WorkerState::failed_probe(const Error& error) {
  // A worker under load may be slow to answer a probe: tokens that come are the better sign.
  if (now() - last_sign() < 2 * options_.deadlines.probe_interval) return;
  set_reachable(false, error.message);
}

void WorkerState::returns_token_ids(bool returns) { token_ids_.store(returns ? 1 : 0, std::memory_order_relaxed); }

void WorkerState::set_reachable(bool reachable, const std::string& trouble) {
  const bool was = reachable_.exchange(reachable, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    trouble_ = trouble;
  }
  if (was == reachable) return;
  if (reachable) {
    strikes_.store(0, std::memory_order_relaxed);
    benched_until_.store(0, std::memory_order_relaxed);
    log_.info("worker up", {{"worker", options_.name}});
  } else {
    log_.warn("worker down", {{"worker", options_.name}, {"reason", trouble}});
  }
}

bool WorkerState::healthy() const {
  if (!reachable()) return false;
  const std::int64_t until = benched_until_.load(std::memory_order_relaxed);
  return until == 0 || now().time_since_epoch().count() >= until;
}

EngineStats WorkerState::stats() const {
  EngineStats stats;
  stats.running = active_.load(std::memory_order_relaxed);
  stats.prompt_tokens = prompt_tokens_.load(std::memory_order_relaxed);
  stats.cached_tokens = cached_tokens_.load(std::memory_order_relaxed);
  stats.generated_tokens = generated_.load(std::memory_order_relaxed);
  return stats;
}

WorkerReport WorkerState::report() const {
  WorkerReport report;
  report.reachable = reachable();
  const int token_ids = token_ids_.load(std::memory_order_relaxed);
  if (token_ids >= 0) report.returns_token_ids = token_ids == 1;
  report.tells_cached_tokens = tells_cached();
  report.refuses_priority = !takes_priority();
  const std::lock_guard lock(mutex_);
  report.facts = facts_;
  report.trouble = trouble_;
  return report;
}

}  // namespace kvern::engine
