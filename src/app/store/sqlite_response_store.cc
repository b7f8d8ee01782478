#include "app/store/sqlite_response_store.h"

#include <utility>
#include <vector>

namespace kvern::app {
namespace {

/// Calls of one transaction: it takes some milliseconds, and what waits behind it waits no longer.
constexpr std::size_t kBatchMax = 64;
/// How often age is looked at while nothing happens.
constexpr auto kIdle = std::chrono::seconds(30);

/// The store failed, in contrast to a question whose answer is no.
bool is_fault(const Error& error) { return error.code == ErrorCode::kUnavailable; }

}  // namespace

SqliteResponseStore::SqliteResponseStore(std::unique_ptr<ResponseTables> tables, const Clock& clock, Log& log,
                                         Metrics& metrics, const StoreQueueBounds& bounds)
    : tables_(std::move(tables)),
      clock_(clock),
      log_(log),
      bounds_(bounds),
      failures_(metrics.counter("kvern_response_store_failures_total", "Calls of the store of responses that failed")),
      stored_bytes_(metrics.gauge("kvern_response_store_bytes", "Bytes of stored responses")),
      thread_([this] { work(); }) {}

SqliteResponseStore::~SqliteResponseStore() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ready_.notify_all();
  thread_.join();
}

void SqliteResponseStore::push(Call call, Executor& home) {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_ && calls_.size() < bounds_.calls && bytes_ + call.bytes <= bounds_.bytes) {
      bytes_ += call.bytes;
      calls_.push_back(std::move(call));
      ready_.notify_one();
      return;
    }
  }
  Error error = fail(ErrorCode::kOverloaded, "Too many stored responses wait for the disk.");
  error.retry_after = std::chrono::seconds(1);
  home.post([done = std::move(call.done), error] { done(error); });
}

template <typename T>
void SqliteResponseStore::ask(std::function<Result<T>(ResponseTables&)> run, std::uint64_t bytes, Executor& home,
                              Callback<T> done) {
  auto found = std::make_shared<std::optional<T>>();
  push({[run = std::move(run), found](ResponseTables& tables) -> Result<void> {
          Result<T> result = run(tables);
          if (!result) return std::move(result).error();
          *found = *std::move(result);
          return {};
        },
        [found, &home, done = std::move(done)](const Result<void>& result) mutable {
          home.post([found, result, done = std::move(done)] {
            done(result.ok() ? Result<T>(std::move(**found)) : Result<T>(result.error()));
          });
        },
        bytes},
       home);
}

void SqliteResponseStore::put(pipeline::StoredResponse response, Executor& home, Callback<void> done) {
  const std::uint64_t bytes = response.input.size() + response.answer.size() + response.events.size();
  push({[this, kept = std::make_shared<pipeline::StoredResponse>(std::move(response))](ResponseTables& tables) {
          return tables.put(*kept, clock_.unix_time());
        },
        [&home, done = std::move(done)](Result<void> result) mutable {
          home.post([done = std::move(done), result = std::move(result)] { done(result); });
        },
        bytes},
       home);
}

void SqliteResponseStore::find(std::string tenant, RequestId id, Executor& home,
                               Callback<pipeline::StoredResponse> done) {
  ask<pipeline::StoredResponse>(
      [tenant = std::move(tenant), id](ResponseTables& tables) { return tables.find(tenant, id); }, 0, home,
      std::move(done));
}

void SqliteResponseStore::history(std::string tenant, RequestId id, std::uint64_t bytes_max, Executor& home,
                                  Callback<std::vector<pipeline::StoredResponse>> done) {
  ask<std::vector<pipeline::StoredResponse>>(
      [tenant = std::move(tenant), id, bytes_max](ResponseTables& tables) {
        return tables.history(tenant, id, bytes_max);
      },
      0, home, std::move(done));
}

void SqliteResponseStore::erase(std::string tenant, RequestId id, Executor& home, Callback<void> done) {
  push({[tenant = std::move(tenant), id](ResponseTables& tables) { return tables.erase(tenant, id); },
        [&home, done = std::move(done)](Result<void> result) mutable {
          home.post([done = std::move(done), result = std::move(result)] { done(result); });
        },
        0},
       home);
}

void SqliteResponseStore::work() {
  bool trimming = true;  // a file that an earlier process left
  for (;;) {
    std::deque<Call> batch;
    {
      std::unique_lock lock(mutex_);
      const auto due = [this] { return ending_ || !calls_.empty(); };
      if (!trimming) ready_.wait_for(lock, kIdle, due);
      if (calls_.empty() && ending_) return;
      while (!calls_.empty() && batch.size() < kBatchMax) {
        bytes_ -= calls_.front().bytes;
        batch.push_back(std::move(calls_.front()));
        calls_.pop_front();
      }
    }
    if (!batch.empty()) serve(std::move(batch));
    // One step between batches: it takes away more rows than a step of work adds, so the bound is kept.
    const auto more = tables_->trim(clock_.unix_time());
    if (!more) log_.error("store of responses", {{"why", more.error().message}});
    trimming = more.ok() && *more;
    if (const auto bytes = tables_->bytes()) stored_bytes_.Set(static_cast<double>(*bytes));
  }
}

void SqliteResponseStore::serve(std::deque<Call> calls) {
  if (serve_together(calls)) return;
  // One of them does not fit: the others need not suffer for it.
  for (Call& call : calls) serve_alone(call);
}

bool SqliteResponseStore::serve_together(std::deque<Call>& calls) {
  if (auto begun = tables_->begin(); !begun) return false;
  std::vector<Result<void>> results;
  for (Call& call : calls) {
    results.push_back(call.run(*tables_));
    if (!results.back().ok() && is_fault(results.back().error())) {
      tables_->roll_back();
      return false;
    }
  }
  if (auto committed = tables_->commit(); !committed) {
    tables_->roll_back();
    return false;
  }
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].done(std::move(results[i]));
  return true;
}

void SqliteResponseStore::serve_alone(Call& call) {
  Result<void> result = tables_->begin();
  if (result) result = call.run(*tables_);
  if (result) result = tables_->commit();
  if (!result) tables_->roll_back();
  if (!result && is_fault(result.error())) {
    failures_.Increment();
    log_.error("store of responses", {{"why", result.error().message}});
  }
  call.done(std::move(result));
}

}  // namespace kvern::app
