// An engine whose events a test writes by hand. For tests only; one thread.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace kvern::pipeline::testing {

class HandEngine final : public engine::Engine {
 public:
  const engine::ModelInfo& model() const override { return info; }
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override {
    if (refusal) return *refusal;
    sinks_[request.id] = std::move(sink);
    submitted.push_back(std::move(request));
    return {};
  }
  void cancel(RequestId id) override {
    cancelled.push_back(id);
    sinks_.erase(id);
  }
  engine::EngineStats stats() const override { return {.running = static_cast<std::uint32_t>(sinks_.size())}; }
  bool healthy() const override { return is_healthy; }
  bool alive() const override { return is_healthy || is_alive; }

  /// Sends an event of a request, also of one it never had (`sink` of some request it has or had).
  void send(RequestId id, decltype(engine::EngineEvent::body) body) {
    const auto found = sinks_.find(id);
    if (found != sinks_.end()) last_sink_ = found->second;
    const bool ends = std::holds_alternative<engine::Finished>(body) || std::holds_alternative<engine::Failed>(body);
    if (ends) sinks_.erase(id);
    if (last_sink_) last_sink_->on_events({{id, std::move(body)}});
  }

  std::vector<engine::GenerateRequest> submitted;
  std::vector<RequestId> cancelled;
  std::optional<Error> refusal;
  bool is_healthy = true;
  bool is_alive = false;  // also when it is not healthy
  engine::ModelInfo info;

 private:
  std::unordered_map<RequestId, std::shared_ptr<engine::EventSink>> sinks_;
  std::shared_ptr<engine::EventSink> last_sink_;
};

}  // namespace kvern::pipeline::testing
