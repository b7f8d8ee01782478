// The store of responses on a thread of its own, so that no loop waits for a disk. What has come while the last
// transaction was written goes into the next one together: under load a commit serves many requests.
//
// Bounds: so many calls and so many bytes may wait; one more is answered with kOverloaded at once. A call that waits
// costs its answer nothing but time: the loops go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "app/store/response_tables.h"
#include "base/log.h"
#include "base/metrics.h"
#include "pipeline/response_store.h"

namespace kvern::app {

struct StoreQueueBounds {
  std::size_t calls = 4096;
  std::uint64_t bytes = 256ULL << 20U;
};

class SqliteResponseStore final : public pipeline::ResponseStore {
 public:
  /// `clock`, `log`, `metrics` and the executors of calls outlive it.
  SqliteResponseStore(std::unique_ptr<ResponseTables> tables, const Clock& clock, Log& log, Metrics& metrics,
                      const StoreQueueBounds& bounds = {});
  /// Writes what waits, then ends the thread.
  ~SqliteResponseStore() override;

  void put(pipeline::StoredResponse response, Executor& home, Callback<void> done) override;
  void find(std::string tenant, RequestId id, Executor& home, Callback<pipeline::StoredResponse> done) override;
  void history(std::string tenant, RequestId id, std::uint64_t bytes_max, Executor& home,
               Callback<std::vector<pipeline::StoredResponse>> done) override;
  void erase(std::string tenant, RequestId id, Executor& home, Callback<void> done) override;

 private:
  /// One call. `run` may come a second time, after a rollback; `done` is told what became of it, once.
  struct Call {
    std::function<Result<void>(ResponseTables&)> run;
    std::function<void(Result<void>)> done;
    std::uint64_t bytes = 0;
  };
  /// What `run` finds and `done` hands on.
  template <typename T>
  void ask(std::function<Result<T>(ResponseTables&)> run, std::uint64_t bytes, Executor& home, Callback<T> done);
  void push(Call call, Executor& home);
  void work();
  void serve(std::deque<Call> calls);
  /// All of them in one transaction; false, and nothing done, where one fails for want of disk.
  bool serve_together(std::deque<Call>& calls);
  void serve_alone(Call& call);

  const std::unique_ptr<ResponseTables> tables_;  // used by the thread
  const Clock& clock_;
  Log& log_;
  const StoreQueueBounds bounds_;
  prometheus::Counter& failures_;
  prometheus::Gauge& stored_bytes_;

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Call> calls_;
  std::uint64_t bytes_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace kvern::app
