#include "sim/checkers/checker.h"

namespace kvern::sim {
namespace {

class NoLeaks final : public Checker {
 public:
  explicit NoLeaks(Findings& findings) : Checker("no_leaks", findings) {}

  void on_started(const Call& call) override { receivers_.push_back(call.receiver); }

  void on_idle(const SimWorker& worker) override {
    if (!rests(worker)) return;
    worker.scheduler()->check();
  }

  void on_drained(Site& site) override {
    for (const auto& loop : site.loops()) {
      if (loop->dispatcher->active() > 0) found("a dispatcher still holds a request");
    }
    for (const auto& worker : site.fleet().status()) {
      if (worker.requests > 0) found("the fleet still counts a request on " + worker.name);
    }
    for (const auto& engine : site.engines()) {
      if (engine->open_streams() > 0) found(engine->name() + ": a stream is still open");
      if (!engine->worker().up() || !rests(engine->worker())) continue;
      engine->worker().scheduler()->clear_cache();
      if (engine->worker().backend()->cells_used() != 0U) found(engine->name() + ": cells are used by nobody");
      engine->worker().scheduler()->check();
    }
    for (const auto& receiver : receivers_) {
      if (!receiver.expired()) return found("a receiver is still held");
    }
  }

 private:
  /// Looked at before Scheduler::check, which ends the process instead of telling.
  bool rests(const SimWorker& worker) const {
    const auto stats = worker.scheduler()->stats();
    const auto tell = [&](bool wrong, const char* what) {
      if (wrong) found(worker.name() + ": " + what);
      return wrong;
    };
    return !tell(stats.running + stats.waiting > 0, "a request is still in the scheduler") &&
           !tell(worker.scheduler()->parked_bytes() > 0, "parked state belongs to nobody") &&
           !tell(stats.sequences_used > 0, "a sequence is used by nobody") &&
           !tell(stats.cache_blocks_used > 0, "a block is pinned by nobody") &&
           !tell(stats.cells_used != stats.cache_blocks * kv::kBlockTokens, "cells are neither free nor cached") &&
           !tell(worker.backend()->cells_used() != stats.cells_used, "the backend counts other cells");
  }

  std::vector<std::weak_ptr<const pipeline::EventReceiver>> receivers_;
};

}  // namespace

std::unique_ptr<Checker> make_no_leaks(Findings& findings) { return std::make_unique<NoLeaks>(findings); }

}  // namespace kvern::sim
