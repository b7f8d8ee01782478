// Drives the requests of one executor: prepare -> engine -> Turn -> caller. Everything of a request happens on that
// executor but two hops: big prompts are prepared on the pool, and the engine hands its events over once per step.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/executor.h"
#include "base/pool.h"
#include "engine/engine.h"
#include "ir/event.h"
#include "ir/request.h"
#include "pipeline/metrics.h"
#include "pipeline/model.h"
#include "pipeline/turn.h"

namespace kvern::pipeline {

/// Receives a request's events on its executor, those of one engine step together.
class EventReceiver {
 public:
  virtual ~EventReceiver() = default;
  /// Not called after the last event or a cancel; may start and cancel requests itself.
  virtual void on_events(std::vector<ir::Event> events) = 0;
};

/// One per executor; used only there, unless stated. `executor`, `pool` and `metrics` outlive it.
class Dispatcher : public std::enable_shared_from_this<Dispatcher> {
 public:
  static std::shared_ptr<Dispatcher> create(Executor& executor, Pool& pool, PipelineMetrics& metrics);
  ~Dispatcher();

  /// Starts a request; its id is new. Events follow on the executor, never within this call, and end with exactly one
  /// End or Failure unless cancelled. What is wrong with the request comes as a Failure without a Start.
  void start(ir::Request request, std::shared_ptr<const Model> model, std::shared_ptr<EventReceiver> receiver);
  /// The caller is gone: frees everything, at the engine as well. No effect on an unknown or ended id.
  void cancel(RequestId id);
  std::size_t active() const { return active_.size(); }

 private:
  struct Active;
  class Sink;

  Dispatcher(Executor& executor, Pool& pool, PipelineMetrics& metrics);
  void prepared(RequestId id, Result<struct Prepared> prepared);
  void on_engine(const std::vector<engine::EngineEvent>& events);
  void deliver(RequestId id, TurnOutput output);
  void fail(RequestId id, Error error);

  Executor& executor_;
  Pool& pool_;
  PipelineMetrics& metrics_;
  std::shared_ptr<Sink> sink_;
  std::unordered_map<RequestId, std::unique_ptr<Active>> active_;
};

}  // namespace kvern::pipeline
