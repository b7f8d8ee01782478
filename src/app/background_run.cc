#include "app/background_run.h"

#include <fmt/format.h>

#include <utility>

namespace kvern::app {
namespace {

/// Of the events of one response: 100,000 tokens and more.
constexpr std::size_t kEventBytesMax = 32U << 20U;
constexpr auto kKeepAlive = std::chrono::seconds(10);
constexpr auto kTick = std::chrono::seconds(5);

Error lost() { return fail(ErrorCode::kEngine, "The server ended before this response was complete."); }

/// Events but for the last one, and that.
std::pair<std::string_view, std::string_view> split_last(std::string_view events) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < events.size(); at += event_length(events.substr(at))) last = at;
  return {events.substr(0, last), events.substr(last)};
}

}  // namespace

BackgroundRun::BackgroundRun(std::unique_ptr<api::Encoder> owner, api::ResponsesEncoder& encoder,
                             pipeline::StoredResponse record, BackgroundParts parts)
    : owner_(std::move(owner)),
      encoder_(encoder),
      record_(std::move(record)),
      parts_(std::move(parts)),
      events_(kEventBytesMax) {
  std::string out;
  encoder_.keep_alive(out);  // created, queued
  events_.append(out);
}

pipeline::StoredResponse BackgroundRun::as_lost() const {
  pipeline::StoredResponse stored = record_;
  const std::lock_guard lock(mutex_);
  encoder_.append_failed(lost(), stored.answer);
  return stored;
}

void BackgroundRun::begin() {
  last_event_ = parts_.loop.clock().now();
  tick();
}

void BackgroundRun::give_up() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kRunning) return;  // cancelled meanwhile: that is under way
    state_ = State::kOver;
    encoder_.append_failed(lost(), object_);
  }
  notify();
  for (const auto& done : std::exchange(waiting_, {})) done();
  parts_.on_over();
}

void BackgroundRun::tick() {
  parts_.loop.post_after(kTick, [self = weak_from_this()] {
    const auto run = self.lock();
    if (!run) return;
    const TimePoint now = run->parts_.loop.clock().now();
    {
      const std::lock_guard lock(run->mutex_);
      if (run->state_ != State::kRunning) return;
      if (now - run->last_event_ >= kKeepAlive) {
        std::string out;
        run->encoder_.keep_alive(out);
        run->events_.append(out);
        run->last_event_ = now;
      }
    }
    run->notify();
    run->tick();
  });
}

void BackgroundRun::on_events(std::uint32_t choice, std::vector<ir::Event> events) {
  std::string out;
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kRunning) return;
    object_.clear();
    for (const ir::Event& event : events) {
      ended = std::holds_alternative<ir::End>(event) || std::holds_alternative<ir::Failure>(event);
      if (ended) encoder_.append_object(object_);  // shown until the end is stored
      encoder_.add(choice, event, out);
      if (ended) break;
    }
    if (!ended) events_.append(out);
  }
  last_event_ = parts_.loop.clock().now();
  if (ended) return take_end(out);
  notify();
}

void BackgroundRun::fail_on_loop(const Error& error) {
  parts_.loop.post([self = shared_from_this(), error] {
    if (const auto dispatcher = self->parts_.dispatcher.lock()) dispatcher->cancel(self->id());
    self->on_events(0, {ir::Failure{error}});
  });
}

void BackgroundRun::cancel(std::function<void()> done) {
  parts_.loop.post([self = shared_from_this(), done = std::move(done)]() mutable {
    std::string out;
    {
      const std::lock_guard lock(self->mutex_);
      if (self->state_ == State::kOver) return done();
      self->waiting_.push_back(std::move(done));
      if (self->state_ == State::kStoring) return;
      self->encoder_.append_object(self->object_);
      self->encoder_.cancel(out);
    }
    if (const auto dispatcher = self->parts_.dispatcher.lock()) dispatcher->cancel(self->id());
    self->take_end(out);
  });
}

void BackgroundRun::take_end(std::string_view events) {
  pipeline::StoredResponse stored = record_;
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kStoring;
    const auto [before, last] = split_last(events);
    events_.append(before);
    last_ = last;
    encoder_.append_object(stored.answer);
    stored.first_event = events_.first();
    events_.read(0, stored.events);
    stored.events += last_;
  }
  notify();
  // The one who stores it keeps it.
  parts_.store.put(std::move(stored), parts_.loop,
                   [self = shared_from_this()](const Result<void>& done) { self->over(done); });
}

void BackgroundRun::over(const Result<void>& stored) {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kOver;
    if (!stored) encoder_.withdraw(stored.error(), last_);
    object_.clear();
    encoder_.append_object(object_);
    events_.append(last_);
    last_.clear();
  }
  notify();
  parts_.log.info("background response", {{"id", id()}, {"stored", stored.ok() ? "yes" : stored.error().message}});
  for (const auto& done : std::exchange(waiting_, {})) done();
  parts_.on_over();
}

bool BackgroundRun::running() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kRunning;
}

std::string BackgroundRun::object() const {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kRunning) return object_;
  std::string out;
  encoder_.append_object(out);
  return out;
}

BackgroundRun::Reading BackgroundRun::read(std::uint64_t from, std::string& out, std::size_t bytes_max) const {
  const std::lock_guard lock(mutex_);
  if (from < events_.first()) return {.next = from, .gone = true};
  const std::uint64_t next = events_.read(from, out, bytes_max);
  const bool more = next < events_.next();
  return {.next = next, .more = more, .over = state_ == State::kOver && !more};
}

std::uint64_t BackgroundRun::first_event() const {
  const std::lock_guard lock(mutex_);
  return events_.first();
}

void BackgroundRun::follow(RequestId follower, std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  followers_.emplace(follower, std::move(notify));
}

void BackgroundRun::unfollow(RequestId follower) {
  const std::lock_guard lock(mutex_);
  followers_.erase(follower);
}

void BackgroundRun::notify() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, notify] : followers_) notify();
}

Result<void> BackgroundRuns::add(std::shared_ptr<BackgroundRun> run) {
  const std::lock_guard lock(mutex_);
  if (runs_.size() >= most_) {
    Error error = fail(ErrorCode::kOverloaded, fmt::format("{} background responses are under way already.", most_));
    error.retry_after = std::chrono::seconds(5);
    return error;
  }
  const RequestId id = run->id();
  runs_.emplace(id, std::move(run));
  return {};
}

void BackgroundRuns::remove(RequestId id) {
  std::shared_ptr<BackgroundRun> last;  // may be the last one to hold it: let go of it outside the lock
  const std::lock_guard lock(mutex_);
  if (const auto found = runs_.find(id); found != runs_.end()) {
    last = std::move(found->second);
    runs_.erase(found);
  }
}

std::shared_ptr<BackgroundRun> BackgroundRuns::find(const std::string& tenant, RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  return found == runs_.end() || found->second->tenant() != tenant ? nullptr : found->second;
}

std::vector<std::shared_ptr<BackgroundRun>> BackgroundRuns::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<BackgroundRun>> out;
  out.reserve(runs_.size());
  for (const auto& [id, run] : runs_) out.push_back(run);
  return out;
}

}  // namespace kvern::app
