// Several workers of one model behind one Engine port. Places each request by a strategy, gives it to another worker
// when the first fails before its first token, and knows how busy each is. Whoever uses an Engine need not know whether
// there is one or many.
//
// Promises
// - Each request runs on one worker at a time. A retry happens only while nothing of the answer has been passed on
//   (Accepted waits for the first Output), each worker is tried once, and at most `attempts_max` that are alive.
// - A request goes to a worker with room for its prompt and its `max_tokens`, or 16,384 of them; where none such
//   is alive, to the one with the most room. `max_tokens` is cut to what is left there (docs/decisions/0004). Room is
//   what the worker's ModelInfo tells; 0 is without a bound.
// - Healthy workers go first. Where none of them has room for all, one that is only alive is tried: a request that
//   every worker fails at may have cost them their health, which is no reason to turn the next one away or to cut its
//   answer.
// - A request that names its worker goes to that one or to none.
// - What a worker sends for a request that it does not have (any more) is dropped: it cannot reach another's stream.
// - Workers may come and go while requests run; one that was taken out finishes what it has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "router/strategy.h"

namespace kvern::pipeline {

struct FleetOptions {
  std::uint32_t attempts_max = 3;  // >= 1
};

class Fleet final : public engine::Engine {
 public:
  struct Worker {
    std::string name;  // unique
    std::shared_ptr<engine::Engine> engine;
  };
  /// One worker at a glance, for metrics, banner and /ready.
  struct Status {
    std::string name;
    bool healthy = false;
    std::uint32_t requests = 0;
    std::uint64_t placed = 0;    // requests given to it since it came, retries included
    std::uint64_t failures = 0;  // of those, given back
  };

  Fleet(engine::ModelInfo model, std::vector<Worker> workers, std::unique_ptr<router::Strategy> strategy,
        FleetOptions options = {});
  /// Ends the workers that nobody else holds; what is left of their requests fails with kUnavailable.
  ~Fleet() override;
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// The workers from now on. One whose name and engine are known already keeps its count of requests.
  void set_workers(std::vector<Worker> workers);
  std::vector<Status> status() const;
  /// Requests moved to another worker since the start.
  std::uint64_t retries() const;

  const engine::ModelInfo& model() const override { return model_; }
  /// kInvalidRequest when the request names a worker that is not here; kContextLength when no worker, alive or not, has
  /// room for the prompt; kUnavailable when none that has is alive; else what the last worker tried said.
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override;
  void cancel(RequestId id) override;
  std::string would_place(const engine::GenerateRequest& request) override;
  /// The sum over the workers.
  engine::EngineStats stats() const override;
  /// True when one worker is alive.
  bool healthy() const override;

 private:
  class State;
  const engine::ModelInfo model_;
  const std::shared_ptr<State> state_;  // also held by what the workers send their events to
};

}  // namespace kvern::pipeline
