// Where long CPU work goes, so that an event loop never stalls on it. WorkerPool is the one of production; the
// simulator brings one whose work takes virtual time.
#pragma once

#include <functional>

namespace kvern {

class Pool {
 public:
  virtual ~Pool() = default;
  /// Runs `work` once, on a thread of the pool. False when the queue is full: the caller answers kOverloaded.
  virtual bool try_run(std::function<void()> work) = 0;
};

}  // namespace kvern
