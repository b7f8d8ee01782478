// What the lanes and the prober of one worker share: its options, counters, and what is known of its health.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "engine/vllm/vllm_engine.h"

namespace kvern::engine {

/// Thread-safe.
class WorkerState {
 public:
  WorkerState(VllmOptions options, const Clock& clock, Log& log);

  const VllmOptions& options() const { return options_; }
  Log& log() const { return log_; }
  TimePoint now() const { return clock_.now(); }

  /// A request may begin; false at the bound. Pair with leave().
  bool enter();
  void leave() { active_.fetch_sub(1, std::memory_order_relaxed); }

  // Evidence -----------------------------------------------------------------------------------------------------
  /// Bytes of an answer came.
  void heard(TimePoint now);
  /// An answer came to its end in order.
  void succeeded(std::uint32_t prompt_tokens, std::optional<std::uint32_t> cached_tokens);
  /// A request failed by the worker's own fault. Three in a row bench it for a while, longer each time.
  void failed();
  /// It cannot be connected to.
  void unreachable();
  void passed_probe(const WorkerFacts* facts);
  void failed_probe(const Error& error);
  void count_tokens(std::size_t tokens) { generated_.fetch_add(tokens, std::memory_order_relaxed); }
  void refuses_priority() { refuses_priority_.store(true, std::memory_order_relaxed); }
  void returns_token_ids(bool returns);

  bool takes_priority() const { return !refuses_priority_.load(std::memory_order_relaxed); }
  bool tells_cached() const { return tells_cached_.load(std::memory_order_relaxed); }
  bool healthy() const;
  bool reachable() const { return reachable_.load(std::memory_order_relaxed); }
  /// Neither a byte nor a passed probe since.
  TimePoint last_sign() const { return TimePoint(Duration(last_sign_.load(std::memory_order_relaxed))); }
  EngineStats stats() const;
  WorkerReport report() const;

 private:
  void set_reachable(bool reachable, const std::string& trouble);

  const VllmOptions options_;
  const Clock& clock_;
  Log& log_;
  std::atomic<std::uint32_t> active_{0};
  std::atomic<std::uint64_t> prompt_tokens_{0};
  std::atomic<std::uint64_t> cached_tokens_{0};
  std::atomic<std::uint64_t> generated_{0};
  std::atomic<bool> reachable_{true};
  std::atomic<std::int64_t> last_sign_;
  std::atomic<std::int64_t> benched_until_{0};
  std::atomic<std::uint32_t> strikes_{0};
  std::atomic<bool> refuses_priority_{false};
  std::atomic<bool> tells_cached_{false};
  std::atomic<int> token_ids_{-1};  // not known, no, yes
  mutable std::mutex mutex_;
  WorkerFacts facts_;    // guarded by mutex_
  std::string trouble_;  // guarded by mutex_
};

}  // namespace kvern::engine
