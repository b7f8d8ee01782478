// The life of a serving process: it may listen where it is told to, listens, says so, and drains at the first signal.
// The same for `kvern serve` and `kvern worker`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/guard.h"
#include "app/service.h"
#include "app/settings.h"
#include "app/signals.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/worker_pool.h"
#include "net/loop.h"

namespace kvern::app {

/// Prints an error for the person at the terminal; the exit status.
int complain(const Error& error);
/// kForbidden for an address beyond loopback, unless keys are asked for there or it is --insecure.
Result<void> check_listen(const Settings& settings, bool asks_for_keys);
GuardOptions guard_options(const Settings& settings);

/// Threads of a serving process. `clock` outlives it.
class Threads {
 public:
  Threads(const Settings& settings, const Clock& clock);
  ~Threads();
  const std::vector<net::Loop*>& loops() const { return pointers_; }
  WorkerPool& pool() { return *pool_; }
  /// The pool's work is done, then the loops end. Before what their callbacks use goes.
  void stop();

 private:
  std::unique_ptr<WorkerPool> pool_;
  std::vector<std::unique_ptr<net::Loop>> loops_;
  std::vector<net::Loop*> pointers_;
};

struct RunParts {
  const Settings& settings;
  StopSignals& signals;
  Log& log;
  Metrics& metrics;
  Threads& threads;
  Service& service;
  /// What is printed below the address once it listens.
  std::function<std::string(const std::string& url)> banner;
  /// Called when nothing is under way any more, before the loops end.
  std::function<void()> on_quiet = [] {};
};

/// Serves until SIGTERM or Ctrl-C; returns the exit status. All threads have ended when it returns.
int run_service(const RunParts& parts);

}  // namespace kvern::app
