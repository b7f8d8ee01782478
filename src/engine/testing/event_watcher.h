// A sink for tests: keeps what each request got, and waits for its end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace kvern::engine::testing {

/// All that came of one request.
struct Heard {
  std::uint32_t accepted = 0;
  std::uint32_t ends = 0;  // Finished or Failed: one at most
  std::uint32_t after_end = 0;
  Tokens tokens;
  std::vector<TokenLogprob> logprobs;
  std::optional<Finished> finished;
  std::optional<Error> failed;
  bool in_order() const { return ends <= 1 && after_end == 0 && accepted <= 1 && (tokens.empty() || accepted == 1); }
};

class EventWatcher final : public EventSink {
 public:
  void on_events(std::vector<EngineEvent> events) override {
    const std::lock_guard lock(mutex_);
    ++batches_;
    for (auto& event : events) take(heard_[event.id], event);
    changed_.notify_all();
  }

  /// Waits for the end of a request; what came of it, also when it did not end.
  Heard wait_end(RequestId id) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return heard_[id].ends > 0; });
    return heard_[id];
  }
  bool wait_tokens(RequestId id, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return heard_[id].tokens.size() >= count; });
  }
  Heard heard(RequestId id) {
    const std::lock_guard lock(mutex_);
    return heard_[id];
  }
  std::size_t batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(20);

  static void take(Heard& heard, EngineEvent& event) {
    if (heard.ends > 0) ++heard.after_end;
    if (std::holds_alternative<Accepted>(event.body)) ++heard.accepted;
    if (auto* output = std::get_if<Output>(&event.body)) {
      heard.tokens.insert(heard.tokens.end(), output->tokens.begin(), output->tokens.end());
      heard.logprobs.insert(heard.logprobs.end(), output->logprobs.begin(), output->logprobs.end());
    }
    if (auto* finished = std::get_if<Finished>(&event.body)) {
      heard.finished = *finished;
      ++heard.ends;
    }
    if (auto* failed = std::get_if<Failed>(&event.body)) {
      heard.failed = failed->error;
      ++heard.ends;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Heard> heard_;
  std::size_t batches_ = 0;
};

}  // namespace kvern::engine::testing
