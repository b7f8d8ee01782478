// A response that goes on without its client. It lives on one loop, where its events come; any loop may look at it,
// follow its events and cancel it. What it ends with is stored before anyone sees it.
//
// While it runs its stored form says that it failed: so if this process dies it has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/responses/responses.h"
#include "app/event_log.h"
#include "base/log.h"
#include "net/loop.h"
#include "pipeline/dispatcher.h"
#include "pipeline/response_store.h"

namespace kvern::app {

struct BackgroundParts {
  net::Loop& loop;
  std::weak_ptr<pipeline::Dispatcher> dispatcher;  // of the loop
  pipeline::ResponseStore& store;
  Log& log;
  std::function<void()> on_over;  // called once on the loop
};

class BackgroundRun final : public pipeline::EventReceiver, public std::enable_shared_from_this<BackgroundRun> {
 public:
  /// `owner` is `encoder`, and streams. `record` is how it is stored, but for what it will have answered.
  BackgroundRun(std::unique_ptr<api::Encoder> owner, api::ResponsesEncoder& encoder, pipeline::StoredResponse record,
                BackgroundParts parts);

  RequestId id() const { return record_.id; }
  const std::string& tenant() const { return record_.tenant; }

  // On its loop.

  /// What is stored before it begins.
  pipeline::StoredResponse as_lost() const;
  /// Keeps followers' connections alive; call once when it begins.
  void begin();
  /// It could not be stored: it never was.
  void give_up();
  void on_events(std::uint32_t choice, std::vector<ir::Event> events) override;

  // On any thread.

  bool running() const;
  /// The response as it stands; of one that is just being stored, before that.
  std::string object() const;
  /// Ends it as cancelled, unless it ends by itself; `done` is called on the run's loop when it is over and stored.
  void cancel(std::function<void()> done);

  /// Ends it with a failure.
  void fail_on_loop(const Error& error);

  struct Reading {
    std::uint64_t next = 0;  // the number to go on from
    bool gone = false;       // number `from` is kept no longer: nothing was read
    bool more = false;       // there are some already
    bool over = false;       // there will be no more
  };
  /// Appends events from number `from` on, until `out` has `bytes_max` or more.
  Reading read(std::uint64_t from, std::string& out, std::size_t bytes_max) const;
  /// The number of the oldest event that is kept.
  std::uint64_t first_event() const;
  /// `notify` is called on the run's loop when there are more events, until unfollow.
  void follow(RequestId follower, std::function<void()> notify);
  void unfollow(RequestId follower);

 private:
  enum class State : std::uint8_t { kRunning, kStoring, kOver };

  void take_end(std::string_view events);
  void over(const Result<void>& stored);
  void notify();
  void tick();

  const std::unique_ptr<api::Encoder> owner_;
  api::ResponsesEncoder& encoder_;  // the same; guarded by the mutex
  const pipeline::StoredResponse record_;
  const BackgroundParts parts_;
  TimePoint last_event_{};                      // on its loop, as the one below
  std::vector<std::function<void()>> waiting_;  // for its end

  mutable std::mutex mutex_;
  State state_ = State::kRunning;
  std::string object_;  // from the end on: what may be shown
  std::string last_;    // the last event, until it is stored
  EventLog events_;
  std::unordered_map<RequestId, std::function<void()>> followers_;
};

/// Those under way, for all loops; so many at most. Thread-safe.
class BackgroundRuns {
 public:
  explicit BackgroundRuns(std::size_t most) : most_(most) {}
  /// kOverloaded when there are so many.
  Result<void> add(std::shared_ptr<BackgroundRun> run);
  void remove(RequestId id);
  std::shared_ptr<BackgroundRun> find(const std::string& tenant, RequestId id) const;
  std::vector<std::shared_ptr<BackgroundRun>> all() const;

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<BackgroundRun>> runs_;
};

}  // namespace kvern::app
