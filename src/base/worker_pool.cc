#include "base/worker_pool.h"

namespace kvern {

WorkerPool::WorkerPool(std::size_t threads, std::size_t waiting_max) : queue_(waiting_max) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      while (auto work = queue_.pop()) (*work)();
    });
  }
}

WorkerPool::~WorkerPool() {
  while (queue_.try_pop()) {
  }
  queue_.close();
  for (auto& thread : threads_) thread.join();
}

}  // namespace kvern
