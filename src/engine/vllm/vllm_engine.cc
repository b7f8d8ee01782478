#include "engine/vllm/vllm_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/vllm/lane.h"
#include "engine/vllm/prober.h"

namespace kvern::engine {
namespace {

Error gone() { return fail(ErrorCode::kUnavailable, "The worker was taken out of service."); }

class Worker final : public VllmEngine {
 public:
  Worker(VllmOptions options, const std::vector<net::Loop*>& loops, Log& log)
      : state_(std::make_shared<WorkerState>(std::move(options), loops.front()->clock(), log)) {
    // Probing has one home; what is posted there outlives this object only to find nothing.
    auto cell = std::make_shared<std::weak_ptr<Prober>>();
    net::Loop& home = *loops.front();
    const auto hurry = [cell, &home] {
      home.post([cell] {
        if (const auto prober = cell->lock()) prober->hurry();
      });
    };
    for (net::Loop* loop : loops) lanes_.push_back(std::make_shared<Lane>(*loop, state_, hurry));
    std::vector<std::weak_ptr<Lane>> lanes(lanes_.begin(), lanes_.end());
    prober_ = std::make_shared<Prober>(home, state_, [lanes] {
      for (const auto& weak : lanes) {
        const auto lane = weak.lock();
        if (!lane) continue;
        lane->loop().post([weak] {
          if (const auto here = weak.lock()) {
            here->fail_all(fail(ErrorCode::kUnavailable, "The worker gives no sign of life."));
          }
        });
      }
    });
    home.post([cell, prober = prober_] {
      *cell = prober;
      prober->start();
    });
  }

  ~Worker() override {
    const bool on_a_loop = std::ranges::any_of(lanes_, [](const auto& lane) { return lane->loop().is_current(); });
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      net::Loop& loop = lanes_[i]->loop();
      // Lane and prober end where they live. A loop must not wait for another that may wait for it.
      auto end = [lane = std::move(lanes_[i]), prober = i == 0 ? std::move(prober_) : nullptr]() mutable {
        lane->fail_all(gone());
        lane->flush();
        lane.reset();
        prober.reset();
      };
      if (on_a_loop) {
        loop.post(std::move(end));
      } else {
        loop.run_and_wait(std::move(end));
      }
    }
  }

  const ModelInfo& model() const override { return state_->options().info; }

  Result<void> submit(GenerateRequest request, std::shared_ptr<EventSink> sink) override {
    if (!state_->enter()) {
      Error error = fail(ErrorCode::kOverloaded, "The worker has too many requests.");
      error.retry_after = std::chrono::seconds(1);
      return error;
    }
    for (const auto& lane : lanes_) {
      if (!lane->loop().is_current()) continue;
      lane->submit(request, std::move(sink));
      return {};
    }
    const auto& lane = lanes_[request.id.value % lanes_.size()];
    lane->loop().post([lane, parcel = std::make_shared<GenerateRequest>(std::move(request)), sink = std::move(sink)] {
      lane->submit(*parcel, sink);
    });
    return {};
  }

  void cancel(RequestId id) override {
    for (const auto& lane : lanes_) {
      if (lane->loop().is_current() && lane->cancel(id)) return;
    }
    for (const auto& lane : lanes_) {
      if (!lane->loop().is_current()) lane->loop().post([lane, id] { lane->cancel(id); });
    }
  }

  EngineStats stats() const override { return state_->stats(); }
  bool healthy() const override { return state_->healthy(); }
  bool alive() const override { return state_->reachable(); }
  WorkerReport report() const override { return state_->report(); }

 private:
  const std::shared_ptr<WorkerState> state_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // one a loop
  std::shared_ptr<Prober> prober_;            // lives on the first loop
};

}  // namespace

std::unique_ptr<VllmEngine> make_vllm_engine(VllmOptions options, const std::vector<net::Loop*>& loops, Log& log) {
  KV_CHECK(!loops.empty());
  return std::make_unique<Worker>(std::move(options), loops, log);
}

}  // namespace kvern::engine
