// The fixture of the suite that every adapter of workers has to pass, whatever its wire (adapter_conformance_test.cc):
// an engine before a fake worker on loopback. An adapter's own tests may stand on it too.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/testing/event_watcher.h"
#include "engine/testing/fake_worker.h"
#include "net/loop.h"

namespace kvern::engine::testing {

/// Deadlines of the tests that wait for one.
struct QuickDeadlines {
  std::chrono::milliseconds first_token{60'000};
  std::chrono::milliseconds between_tokens{60'000};
  std::chrono::milliseconds probe{2'000};
  std::chrono::milliseconds probe_interval{60'000};
  std::chrono::milliseconds silent_max{60'000};
};

struct WireUnderTest {
  std::string name;
  std::function<std::unique_ptr<Engine>(std::uint16_t port, const QuickDeadlines&, const std::vector<net::Loop*>&,
                                        Log&)>
      make;
  /// Bytes of an answer: its head, an event with tokens, and all that ends it in order.
  std::function<std::string()> head;
  std::function<std::string(const std::vector<int>& tokens)> tokens;
  std::function<std::string(std::uint32_t prompt, std::uint32_t completion)> end;
  std::uint32_t vocab_size = 0;
};
inline std::ostream& operator<<(std::ostream& out, const WireUnderTest& wire) { return out << wire.name; }

class AdapterConformance : public ::testing::TestWithParam<WireUnderTest> {
 public:
  ~AdapterConformance() override {
    engine_.reset();
    for (auto& loop : loops_) loop->stop();
  }

 protected:
  AdapterConformance() : log_(LogLevel::kOff) {
    for (int i = 0; i < 2; ++i) loops_.push_back(net::Loop::create(clock_));
  }
  Engine& start(std::uint16_t port, const QuickDeadlines& deadlines = {}) {
    engine_ = GetParam().make(port, deadlines, {loops_[0].get(), loops_[1].get()}, log_);
    return *engine_;
  }
  static GenerateRequest request(std::uint64_t id, std::uint32_t max_tokens = 100) {
    GenerateRequest request;
    request.id = RequestId{id};
    request.prompt = {1, 2, 3};
    request.max_tokens = max_tokens;
    return request;
  }
  Heard run(GenerateRequest request) {
    const RequestId id = request.id;
    if (auto taken = engine_->submit(std::move(request), sink_); !taken) {
      Heard refused;
      refused.failed = taken.error();
      return refused;
    }
    return sink_->wait_end(id);
  }
  /// An answer of these tokens, each an event, sent piece by piece.
  static Plan answer(const std::vector<int>& tokens) {
    Plan plan{{GetParam().head()}};
    for (const int token : tokens) plan.pieces.push_back(GetParam().tokens({token}));
    plan.pieces.push_back(GetParam().end(3, static_cast<std::uint32_t>(tokens.size())));
    return plan;
  }
  /// The beginning of an answer, and then what `then` says.
  static Plan begun(const std::vector<int>& tokens, Plan::Then then, const std::string& more = {}) {
    Plan plan{{GetParam().head()}, then};
    for (const int token : tokens) plan.pieces.push_back(GetParam().tokens({token}));
    if (!more.empty()) plan.pieces.push_back(more);
    return plan;
  }
  bool wait_until(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const SystemClock clock_;
  Log log_;
  std::vector<std::unique_ptr<net::Loop>> loops_;
  std::shared_ptr<EventWatcher> sink_ = std::make_shared<EventWatcher>();
  std::unique_ptr<Engine> engine_;
};

}  // namespace kvern::engine::testing
