// Drives the requests of one executor: prepare -> engine -> Turn -> caller. Everything of a request happens on that
// executor but two hops: big prompts are prepared on the pool, and the engine hands its events over once per step.
// A request with several choices is one engine request and one Turn for each; they stand and fall together.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
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

/// Receives a request's events on its executor, those of one choice and one engine step together.
class EventReceiver {
 public:
  virtual ~EventReceiver() = default;
  /// `choice` is below the request's answers(); each has a stream of its own. The last event is the End of the choice
  /// that ends last, or a Failure of any, which breaks off all. Not called after it or a cancel; may start and cancel
  /// requests itself.
  virtual void on_events(std::uint32_t choice, std::vector<ir::Event> events) = 0;
};

/// One per executor; used only there, unless stated. `executor`, `pool` and `metrics` outlive it.
class Dispatcher : public std::enable_shared_from_this<Dispatcher> {
 public:
  /// `mint` gives ids that no request of the engine has, for the second and later choices; the first has the request's.
  static std::shared_ptr<Dispatcher> create(Executor& executor, Pool& pool, PipelineMetrics& metrics,
                                            std::function<RequestId()> mint);
  ~Dispatcher();

  /// Starts a request; its id is new. Events follow on the executor, never within this call, and end with an End of
  /// each choice or with one Failure, unless cancelled. What is wrong with the request comes as a Failure of the first
  /// choice without a Start, and so does an engine that has no room for all choices.
  void start(ir::Request request, std::shared_ptr<const Model> model, std::shared_ptr<EventReceiver> receiver);
  /// The caller is gone: frees everything, at the engine as well. No effect on an unknown or ended id.
  void cancel(RequestId id);
  std::size_t active() const { return active_.size(); }

 private:
  struct Choice;
  struct Active;
  class Sink;
  using ActiveMap = std::unordered_map<RequestId, std::unique_ptr<Active>>;
  /// A choice by the id that the engine knows it by.
  struct Place {
    Active* active;
    std::uint32_t choice;
  };

  Dispatcher(Executor& executor, Pool& pool, PipelineMetrics& metrics, std::function<RequestId()> mint);
  void prepared(RequestId id, Result<struct Prepared> prepared);
  void submit(Active& active, struct Prepared all);
  void on_engine(const std::vector<engine::EngineEvent>& events);
  void time_token(Active& active, Choice& choice);
  void deliver(RequestId engine_id);
  void finish_choice(Place place, std::vector<ir::Event> events);
  void break_off(Active& active, std::uint32_t choice, std::vector<ir::Event> events);
  void fail(RequestId id, Error error);
  std::shared_ptr<EventReceiver> remove(ActiveMap::iterator at);

  Executor& executor_;
  Pool& pool_;
  PipelineMetrics& metrics_;
  const std::function<RequestId()> mint_;
  std::shared_ptr<Sink> sink_;
  ActiveMap active_;
  // Choices at the engine; asked twice an event.
  boost::unordered_flat_map<RequestId, Place, std::hash<RequestId>> places_;
  std::vector<RequestId> batch_;  // those that the batch at hand is about
};

}  // namespace kvern::pipeline
