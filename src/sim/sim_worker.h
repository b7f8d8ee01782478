// A simulated worker process: the production scheduler (block pool, prefix cache, chunked prefill, batching,
// preemption) over a simulated backend, stepped in virtual time. It takes commands between steps and tells a step's
// events when the step's time is over, as EmbeddedEngine does. A crash loses it all, a restart begins with an empty
// cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/embedded/scheduler.h"
#include "engine/engine.h"
#include "kv/kv_replica.h"
#include "sim/sim_backend.h"
#include "sim/world.h"

namespace kvern::sim {

class SimWorker {
 public:
  using Emit = std::function<void(std::vector<engine::EngineEvent>)>;
  using Idle = std::function<void()>;

  /// `world` outlives it, and is cleared before it goes. `emit` gets the events of each step.
  SimWorker(World& world, std::string name, const engine::SchedulerOptions& options, Emit emit);
  ~SimWorker();
  SimWorker(const SimWorker&) = delete;
  SimWorker& operator=(const SimWorker&) = delete;

  /// Called whenever nothing is left to do; may look at scheduler().
  void on_idle(Idle idle) { idle_ = std::move(idle); }

  // Commands as they arrive; lost while it is down. A refusal comes as a Failed.
  void submit(engine::GenerateRequest request);
  void cancel(RequestId id);

  // Faults.
  void crash();
  void restart();
  void stall(Duration time);
  void fail_decodes(std::uint32_t decodes);
  /// Ends a stall.
  void resume();

  const std::string& name() const { return name_; }
  bool up() const { return process_ != nullptr; }
  bool stalled() const { return world_.now() < stalled_until_; }
  /// Null while it is down.
  engine::Scheduler* scheduler() const;
  const SimBackend* backend() const;
  /// What a follower of its KV events knows of its cache, all of them applied. Null while it is down.
  const kv::KvReplica* follower() const;
  /// An event contradicted those before it.
  bool events_contradict() const;
  /// Over all its lives.
  std::uint64_t preemptions() const;
  std::uint64_t cached_tokens() const;

 private:
  struct Cancel {
    RequestId id;
  };
  using Command = std::variant<engine::GenerateRequest, Cancel>;
  struct Process;

  void take(std::vector<Command> commands, std::vector<engine::Outgoing>& out);
  void follow_events();
  void wake();
  void wake_at(TimePoint when);
  void finish_step(const std::weak_ptr<Process>& stepped, std::vector<engine::EngineEvent> events);

  World& world_;
  const std::string name_;
  const engine::SchedulerOptions options_;
  const Emit emit_;
  Idle idle_;
  std::shared_ptr<Process> process_;
  TimePoint stalled_until_{};
  std::uint64_t lost_preemptions_ = 0;  // counts of lives that crashed
  std::uint64_t lost_cached_tokens_ = 0;
};

}  // namespace kvern::sim
