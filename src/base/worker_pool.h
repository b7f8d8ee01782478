// The bounded pool for long CPU work (rendering and tokenising big prompts), so that an event loop never stalls on it.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace kvern {

/// Thread-safe. Destruction finishes what was taken and drops what still waits.
class WorkerPool {
 public:
  WorkerPool(std::size_t threads, std::size_t waiting_max);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// False when the queue is full: the caller answers kOverloaded.
  bool try_run(std::function<void()> work) { return queue_.try_push(std::move(work)); }

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace kvern
