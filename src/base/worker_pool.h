// The bounded pool for long CPU work (rendering and tokenising big prompts), so that an event loop never stalls on it.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/pool.h"

namespace kvern {

/// Thread-safe. Destruction finishes what was taken and drops what still waits.
class WorkerPool final : public Pool {
 public:
  WorkerPool(std::size_t threads, std::size_t waiting_max);
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool try_run(std::function<void()> work) override { return queue_.try_push(std::move(work)); }

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace kvern
