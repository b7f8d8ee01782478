// Asks one worker again and again whether it is there, and who it is: at its own pace, and at once when a request
// failed.
#pragma once

#include <memory>

#include "engine/vllm/worker_state.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace kvern::engine {

/// Used on its loop only; destroyed there, or when the loop has stopped.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  /// `on_dead` is called when the worker has given no sign of life for `silent_max` and failed a probe since, at most
  /// twice a round.
  Prober(net::Loop& loop, std::shared_ptr<WorkerState> state, std::function<void()> on_dead);
  void start() { wait(); }
  /// Asks now, unless it asks already or did a moment ago.
  void hurry();

 private:
  void ask();
  void wait();
  void look_for_silence();
  void answered(const Result<void>& result, const WorkerFacts* facts);

  net::Loop& loop_;
  const std::shared_ptr<WorkerState> state_;
  const std::function<void()> on_dead_;
  const std::unique_ptr<net::Client> client_;
  TimePoint last_asked_;
  std::uint32_t rounds_ = 0;
  bool asking_ = false;
  bool was_down_ = false;
  bool watching_ = false;  // a look for silence is on its way
};

}  // namespace kvern::engine
