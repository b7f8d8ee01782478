// The Engine port over a simulated worker: what an adapter and its wire do, in virtual time. Submits, cancels and
// events travel with a delay, each stream in order; a wire may break, go silent, or bring events after a cancel; the
// adapter notices what stays silent by its timeouts. It keeps the port's promises whatever the worker does, so
// everything wrong above the port is a bug above the port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sim/sim_worker.h"
#include "sim/world.h"

namespace kvern::sim {

struct WireOptions {
  Duration delay_min = std::chrono::microseconds(20);
  Duration delay_max = std::chrono::milliseconds(4);
  /// All events of a step arrive together, as from an engine in the process; else each stream has a wire of its own.
  bool together = false;
  /// How often a cancelled stream still brings what was under way, some of it twice.
  double late_events = 0.5;
  Duration first_token_timeout = std::chrono::seconds(60);     // the worker's queue included
  Duration between_tokens_timeout = std::chrono::seconds(20);  // preemption included
};

class SimEngine final : public engine::Engine {
 public:
  /// `world` outlives it, and is cleared before it goes.
  SimEngine(World& world, const std::string& name, const engine::SchedulerOptions& options, const WireOptions& wire);

  const engine::ModelInfo& model() const override { return info_; }
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override;
  void cancel(RequestId id) override;
  engine::EngineStats stats() const override;
  bool healthy() const override { return reachable_ && !worker_.stalled(); }

  // Faults. A loud one is noticed at once (a connection is reset), a silent one only by a timeout.
  void crash(bool loud);
  void restart();
  /// Breaks one of the open streams. False when there is none.
  bool cut_one(bool loud);
  /// Answers every submit kOverloaded for a time.
  void refuse(Duration time) { refusing_until_ = world_.now() + time; }
  /// Ends every fault, and lets no new one of the wire happen.
  void heal();

  SimWorker& worker() { return worker_; }
  const SimWorker& worker() const { return worker_; }
  const std::string& name() const { return worker_.name(); }
  /// Submitted, neither ended nor cancelled.
  std::size_t open_streams() const { return by_request_.size(); }
  /// Cancels so far, by what had come of the stream.
  struct Cancels {
    std::uint64_t waiting = 0;
    std::uint64_t in_prefill = 0;
    std::uint64_t in_text = 0;
  };
  const Cancels& cancels() const { return cancels_; }

 private:
  /// A submit gets a number of its own: the same request may come again while its first stream still dies away.
  using StreamId = RequestId;
  struct Stream {
    RequestId request;
    std::shared_ptr<engine::EventSink> sink;
    TimePoint progress;
    TimePoint reaches_worker;  // nothing sent later arrives before this
    TimePoint reaches_us;
    bool accepted = false;
    bool first_token = false;
    bool cut = false;        // its events are lost
    bool cancelled = false;  // kept only for late events
  };

  void send(Stream& stream, std::function<void()> arrives);
  void take_step(std::vector<engine::EngineEvent> events);
  void arrive(std::vector<engine::EngineEvent> events);
  void connect(engine::GenerateRequest request);
  void watch(StreamId id);
  void break_stream(StreamId id, ErrorCode code, const char* why);
  void fail(StreamId id, Error error);
  Duration delay();

  World& world_;
  Rng rng_;
  WireOptions wire_;
  engine::ModelInfo info_;
  SimWorker worker_;
  std::map<StreamId, Stream> streams_;
  std::map<RequestId, StreamId> by_request_;
  std::uint64_t next_stream_ = 1;
  Cancels cancels_;
  TimePoint step_reaches_us_{};
  TimePoint refusing_until_{};
  bool reachable_ = true;  // as far as the adapter knows
  bool black_hole_ = false;
};

}  // namespace kvern::sim
