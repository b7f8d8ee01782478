#include "pipeline/fleet.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace kvern::pipeline {
namespace {

using engine::EngineEvent;
using engine::EventSink;
using Events = std::vector<EngineEvent>;

constexpr std::chrono::seconds kRetryAfter{1};
/// A worker with so much room for the answer is as good as one with more. Clients that ask for no length, or for a huge
/// one, would otherwise leave all but the longest workers idle.
constexpr std::size_t kAmpleAnswer = 16'384;

/// A worker for as long as the fleet or one of its requests knows it. Counts are under the fleet's mutex.
struct Slot {
  std::uint64_t id = 0;
  std::string name;
  std::shared_ptr<engine::Engine> engine;
  std::uint32_t context_tokens = 0;  // 0: as long as any
  std::uint32_t requests = 0;
  std::uint64_t prefill_tokens = 0;
  std::uint64_t placed = 0;
  std::uint64_t failures = 0;
  /// What this worker sends its events to, by whom they are for.
  std::unordered_map<EventSink*, std::weak_ptr<EventSink>> taps;
};
using SlotPtr = std::shared_ptr<Slot>;

/// A request between submit and its end.
struct Flight {
  std::shared_ptr<EventSink> sink;
  /// What to give to the next worker; absent once there can be none.
  std::optional<engine::GenerateRequest> request;
  std::uint32_t prompt_tokens = 0;
  SlotPtr slot;  // who has it; nullptr between two workers
  std::vector<std::uint64_t> tried;
  std::uint64_t attempt = 0;  // changes with every placement
  std::optional<engine::Accepted> held;
  bool passed = false;  // something of the answer went out: no other worker may take over
};

/// Whether a worker has room for the prompt and `answer_tokens`.
bool has_room(const Slot& slot, std::size_t prompt_tokens, std::size_t answer_tokens) {
  return slot.context_tokens == 0 || prompt_tokens + answer_tokens <= slot.context_tokens;
}

/// The least answer that is one.
std::size_t least_answer(const engine::GenerateRequest& request) {
  return std::max<std::size_t>(1, request.min_tokens);
}

Error too_long() {
  return fail(ErrorCode::kContextLength, "The prompt and its answer are longer than the context of every worker.");
}

bool is_wanted(const Slot& slot, const engine::GenerateRequest& request) {
  return request.worker.empty() || slot.name == request.worker;
}

/// Not tried yet for a request that may still be given to a worker.
bool is_possible(const Slot& slot, const Flight& flight) {
  return std::ranges::find(flight.tried, slot.id) == flight.tried.end() && is_wanted(slot, *flight.request);
}

Error no_such_worker() {
  return invalid("worker",
                 "No worker has the name that the request asks for (nvext.backend_instance_id or "
                 "nvext.decode_worker_id, or the header x-dynamo-worker-instance-id).");
}

/// Whether another worker may take what this one gave back. Each has a context of its own, and one that was restarted
/// may have a shorter one than is known here.
bool worth_another(ErrorCode code) { return retryable(code) || code == ErrorCode::kContextLength; }

Error nobody() {
  Error error = fail(ErrorCode::kUnavailable, "No worker can answer.");
  error.retry_after = kRetryAfter;
  return error;
}

}  // namespace

// Engines call sinks without holding locks of theirs, and `mutex_` is never held while an engine or a sink is called.
class Fleet::State : public std::enable_shared_from_this<Fleet::State> {
 public:
  State(std::unique_ptr<router::Strategy> strategy, FleetOptions options)
      : strategy_(std::move(strategy)), options_(options) {
    KV_CHECK(options_.attempts_max > 0);
  }

  void set_workers(std::vector<Worker> workers);
  void close();
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id);
  std::string would_place(const engine::GenerateRequest& request);
  /// Events of the worker `slot` for `sink`.
  void on_events(std::uint64_t slot, const std::shared_ptr<EventSink>& sink, Events events);

  std::vector<SlotPtr> slots() const {
    const std::lock_guard lock(mutex_);
    return slots_;
  }
  std::vector<Status> status() const;
  std::uint64_t retries() const {
    const std::lock_guard lock(mutex_);
    return retries_;
  }

 private:
  class Tap;
  class Placing;
  struct Retry {
    RequestId id;
    Error error;
  };
  /// A request booked on a worker, to be handed over without the lock.
  struct Handover {
    SlotPtr slot;
    std::uint64_t attempt = 0;
    engine::GenerateRequest request;
    std::shared_ptr<EventSink> tap;
  };

  /// Gives the request to one worker after the other until one takes it. nullopt: taken, or no longer wanted.
  std::optional<Error> place(RequestId id, Error when_none_is_left);
  std::optional<Handover> book(Flight& flight, std::span<const SlotPtr> slots, const std::vector<bool>& healthy);
  /// Each worker as the strategy sees it for this request.
  static std::vector<router::WorkerView> views_for(const Flight& flight, std::span<const SlotPtr> slots,
                                                   const std::vector<bool>& healthy);
  static std::vector<bool> health_of(std::span<const SlotPtr> slots);
  /// The place of a worker with room for all that was asked for, else of one with room for a shorter answer.
  std::optional<std::size_t> choose(const Flight& flight, std::span<const SlotPtr> slots,
                                    const std::vector<router::WorkerView>& views);
  std::shared_ptr<EventSink> tap(Slot& slot, const std::shared_ptr<EventSink>& sink);
  static void unbook(Flight& flight);
  void take(std::uint64_t slot, EngineEvent event, Events& out, std::vector<Retry>& retries);
  static void pass(Flight& flight, RequestId id, Events& out);
  std::vector<SlotPtr> retired();

  const std::unique_ptr<router::Strategy> strategy_;
  const FleetOptions options_;
  mutable std::mutex mutex_;
  std::vector<SlotPtr> slots_;
  // An engine must not end on a thread of its own, where events are taken and retries are placed. So one that was taken
  // out stays here until its requests are over, and goes while nobody places, when somebody else calls.
  std::vector<SlotPtr> leaving_;
  std::uint32_t placing_ = 0;
  std::condition_variable placed_;
  std::unordered_map<RequestId, Flight> flights_;
  std::uint64_t slot_ids_ = 0;
  std::uint64_t attempts_ = 0;
  std::uint64_t retries_ = 0;
  bool closed_ = false;
};

/// Stands between one worker and one sink. Knows its worker by number only: held by the engine, it must not hold it.
class Fleet::State::Tap final : public EventSink {
 public:
  Tap(std::shared_ptr<State> state, std::uint64_t slot, std::shared_ptr<EventSink> sink)
      : state_(std::move(state)), slot_(slot), sink_(std::move(sink)) {}
  void on_events(Events events) override { state_->on_events(slot_, sink_, std::move(events)); }

 private:
  const std::shared_ptr<State> state_;
  const std::uint64_t slot_;
  const std::shared_ptr<EventSink> sink_;
};

/// Counts a placement under way. It outlives what that holds of the workers.
class Fleet::State::Placing {
 public:
  explicit Placing(State& state) : state_(state) {
    const std::lock_guard lock(state_.mutex_);
    ++state_.placing_;
  }
  ~Placing() {
    const std::lock_guard lock(state_.mutex_);
    if (--state_.placing_ == 0) state_.placed_.notify_all();
  }
  Placing(const Placing&) = delete;
  Placing& operator=(const Placing&) = delete;

 private:
  State& state_;
};

// --- Workers ------------------------------------------------------------------------------------------------------

void Fleet::State::set_workers(std::vector<Worker> workers) {
  std::vector<SlotPtr> ended;  // engines end without the lock
  const std::lock_guard lock(mutex_);
  std::vector<SlotPtr> next;
  for (auto& worker : workers) {
    const auto known = std::ranges::find_if(
        slots_, [&](const SlotPtr& slot) { return slot->name == worker.name && slot->engine == worker.engine; });
    if (known != slots_.end()) {
      next.push_back(*known);
      continue;
    }
    next.push_back(std::make_shared<Slot>());
    next.back()->id = ++slot_ids_;
    next.back()->name = std::move(worker.name);
    next.back()->context_tokens = worker.engine->model().context_tokens;
    next.back()->engine = std::move(worker.engine);
  }
  for (auto& slot : slots_) {
    if (std::ranges::find(next, slot) == next.end()) leaving_.push_back(std::move(slot));
  }
  slots_ = std::move(next);
  ended = retired();
}

std::vector<SlotPtr> Fleet::State::retired() {
  std::vector<SlotPtr> out;
  if (placing_ > 0) return out;
  std::erase_if(leaving_, [&](SlotPtr& slot) {
    if (slot->requests > 0) return false;
    out.push_back(std::move(slot));
    return true;
  });
  return out;
}

void Fleet::State::close() {
  std::vector<SlotPtr> slots;
  std::unordered_map<RequestId, Flight> flights;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    placed_.wait(lock, [this] { return placing_ == 0; });
    slots = std::exchange(slots_, {});
    slots.insert(slots.end(), leaving_.begin(), leaving_.end());
    leaving_.clear();
    flights = std::exchange(flights_, {});
  }
  for (const auto& [id, flight] : flights) {
    if (flight.slot) flight.slot->engine->cancel(id);
    flight.sink->on_events({EngineEvent{id, engine::Failed{nobody()}}});
  }
}

std::vector<Fleet::Status> Fleet::State::status() const {
  std::vector<Status> out;
  std::vector<SlotPtr> slots;
  {
    const std::lock_guard lock(mutex_);
    slots = slots_;
    for (const auto& slot : slots) out.push_back({slot->name, false, slot->requests, slot->placed, slot->failures});
  }
  for (std::size_t i = 0; i < slots.size(); ++i) out[i].healthy = slots[i]->engine->healthy();
  return out;
}

// --- Requests -----------------------------------------------------------------------------------------------------

Result<void> Fleet::State::submit(engine::GenerateRequest request, std::shared_ptr<EventSink> sink) {
  const RequestId id = request.id;
  std::vector<SlotPtr> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = retired();
    if (closed_) return nobody();
    Flight flight;
    flight.sink = std::move(sink);
    flight.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    flight.request = std::move(request);
    if (!flights_.emplace(id, std::move(flight)).second) {
      return fail(ErrorCode::kInternal, "a request with this id is running");
    }
  }
  auto error = place(id, nobody());
  if (!error) return {};
  const std::lock_guard lock(mutex_);
  flights_.erase(id);
  return *std::move(error);
}

void Fleet::State::cancel(RequestId id) {
  SlotPtr slot;
  {
    const std::lock_guard lock(mutex_);
    const auto found = flights_.find(id);
    if (found == flights_.end()) return;
    slot = found->second.slot;
    unbook(found->second);
    flights_.erase(found);
  }
  if (slot) slot->engine->cancel(id);
}

std::optional<Error> Fleet::State::place(RequestId id, Error when_none_is_left) {
  const Placing placing(*this);
  for (;;) {
    const auto slots = this->slots();
    const auto healthy = health_of(slots);
    std::optional<Handover> handover;
    {
      const std::lock_guard lock(mutex_);
      const auto found = flights_.find(id);
      if (found == flights_.end()) return std::nullopt;
      handover = book(found->second, slots, healthy);
      if (!handover && found->second.tried.empty() && !slots.empty()) {
        const auto& request = *found->second.request;
        const auto wanted = [&](const auto& slot) { return is_wanted(*slot, request); };
        if (std::ranges::none_of(slots, wanted)) return no_such_worker();
        const bool fits = std::ranges::any_of(slots, [&](const auto& slot) {
          return wanted(slot) && has_room(*slot, request.prompt.size(), least_answer(request));
        });
        if (!fits) return too_long();
      }
    }
    if (!handover) return when_none_is_left;
    auto taken = handover->slot->engine->submit(std::move(handover->request), std::move(handover->tap));

    std::unique_lock lock(mutex_);
    const auto found = flights_.find(id);
    const bool is_current = found != flights_.end() && found->second.attempt == handover->attempt;
    if (taken) {
      lock.unlock();
      // Cancelled while it was handed over: the worker did not know it then.
      if (!is_current) handover->slot->engine->cancel(id);
      return std::nullopt;
    }
    if (!is_current) return std::nullopt;
    unbook(found->second);
    ++handover->slot->failures;
    if (!worth_another(taken.error().code)) return taken.error();
    when_none_is_left = taken.error();
  }
}

std::optional<Fleet::State::Handover> Fleet::State::book(Flight& flight, std::span<const SlotPtr> slots,
                                                         const std::vector<bool>& healthy) {
  if (closed_ || !flight.request || flight.tried.size() >= options_.attempts_max) return std::nullopt;
  const auto chosen = choose(flight, slots, views_for(flight, slots, healthy));
  if (!chosen) return std::nullopt;
  const SlotPtr& slot = slots[*chosen];
  if (!flight.tried.empty()) ++retries_;
  flight.tried.push_back(slot->id);
  const bool others_left = std::ranges::any_of(slots, [&](const auto& other) { return is_possible(*other, flight); });
  flight.slot = slot;
  flight.attempt = ++attempts_;
  flight.held.reset();
  ++slot->requests;
  ++slot->placed;
  slot->prefill_tokens += flight.prompt_tokens;

  Handover handover{slot, flight.attempt, {}, tap(*slot, flight.sink)};
  if (others_left && flight.tried.size() < options_.attempts_max) {
    handover.request = *flight.request;
  } else {
    handover.request = std::move(*flight.request);  // nobody is left to retry with, so no copy is kept
    flight.request.reset();
  }
  if (slot->context_tokens != 0) {
    const auto room = static_cast<std::uint32_t>(slot->context_tokens - handover.request.prompt.size());
    handover.request.max_tokens = std::min(handover.request.max_tokens, room);
  }
  return handover;
}

std::vector<bool> Fleet::State::health_of(std::span<const SlotPtr> slots) {
  std::vector<bool> healthy;
  healthy.reserve(slots.size());
  for (const auto& slot : slots) healthy.push_back(slot->engine->healthy());
  return healthy;
}

std::vector<router::WorkerView> Fleet::State::views_for(const Flight& flight, std::span<const SlotPtr> slots,
                                                        const std::vector<bool>& healthy) {
  std::vector<router::WorkerView> views;
  views.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    views.push_back({healthy[i] && is_possible(*slots[i], flight), slots[i]->requests, slots[i]->prefill_tokens});
  }
  return views;
}

std::string Fleet::State::would_place(const engine::GenerateRequest& request) {
  const auto slots = this->slots();
  const auto healthy = health_of(slots);
  Flight flight;
  flight.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  flight.request = request;
  const std::lock_guard lock(mutex_);
  const auto chosen = choose(flight, slots, views_for(flight, slots, healthy));
  return chosen ? slots[*chosen]->name : std::string();
}

std::optional<std::size_t> Fleet::State::choose(const Flight& flight, std::span<const SlotPtr> slots,
                                                const std::vector<router::WorkerView>& views) {
  const auto& request = *flight.request;
  const std::size_t least = least_answer(request);
  const std::size_t wished = std::max(least, std::min<std::size_t>(request.max_tokens, kAmpleAnswer));
  for (const std::size_t answer : {wished, least}) {
    auto roomy = views;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      roomy[i].usable = views[i].usable && has_room(*slots[i], request.prompt.size(), answer);
    }
    if (const auto chosen = strategy_->place({flight.prompt_tokens}, roomy)) return chosen;
  }
  return std::nullopt;
}

std::shared_ptr<EventSink> Fleet::State::tap(Slot& slot, const std::shared_ptr<EventSink>& sink) {
  auto& known = slot.taps[sink.get()];
  auto tap = known.lock();
  if (tap) return tap;
  tap = std::make_shared<Tap>(shared_from_this(), slot.id, sink);
  known = tap;
  // A tap holds its sink, so an entry outlives its sink only when it has expired.
  std::erase_if(slot.taps, [](const auto& entry) { return entry.second.expired(); });
  return tap;
}

void Fleet::State::unbook(Flight& flight) {
  if (!flight.slot) return;
  --flight.slot->requests;
  if (!flight.passed) flight.slot->prefill_tokens -= flight.prompt_tokens;
  flight.slot.reset();
}

// --- Events -------------------------------------------------------------------------------------------------------

void Fleet::State::on_events(std::uint64_t slot, const std::shared_ptr<EventSink>& sink, Events events) {
  Events out;
  out.reserve(events.size());
  std::vector<Retry> retries;
  {
    const std::lock_guard lock(mutex_);
    for (auto& event : events) take(slot, std::move(event), out, retries);
  }
  if (!out.empty()) sink->on_events(std::move(out));
  for (auto& retry : retries) {
    auto error = place(retry.id, std::move(retry.error));
    if (!error) continue;
    {
      const std::lock_guard lock(mutex_);
      if (flights_.erase(retry.id) == 0) continue;
    }
    sink->on_events({EngineEvent{retry.id, engine::Failed{*std::move(error)}}});
  }
}

void Fleet::State::take(std::uint64_t slot, EngineEvent event, Events& out, std::vector<Retry>& retries) {
  const auto found = flights_.find(event.id);
  // Of a request that ended, was cancelled, or has moved on.
  if (found == flights_.end() || !found->second.slot || found->second.slot->id != slot) return;
  Flight& flight = found->second;
  if (auto* accepted = std::get_if<engine::Accepted>(&event.body)) {
    accepted->worker = flight.slot->name;
    flight.held = std::move(*accepted);
    return;
  }
  if (auto* failed = std::get_if<engine::Failed>(&event.body)) {
    ++flight.slot->failures;
#ifdef KVERN_CANARY_LATE_RETRY
    const bool can_retry = flight.request && worth_another(failed->error.code);
#else
    const bool can_retry = !flight.passed && flight.request && worth_another(failed->error.code);
#endif
    unbook(flight);
    if (can_retry) {
      retries.push_back({event.id, std::move(failed->error)});
      return;
    }
    flights_.erase(found);
    out.push_back(std::move(event));
    return;
  }
  pass(flight, event.id, out);
  if (std::holds_alternative<engine::Finished>(event.body)) {
    unbook(flight);
    flights_.erase(found);
  }
  out.push_back(std::move(event));
}

void Fleet::State::pass(Flight& flight, RequestId id, Events& out) {
  if (flight.passed) return;
  flight.passed = true;
  flight.slot->prefill_tokens -= flight.prompt_tokens;
#ifndef KVERN_CANARY_LATE_RETRY
  flight.request.reset();
#endif
  if (flight.held) out.push_back({id, *std::move(flight.held)});
}

// --- Fleet --------------------------------------------------------------------------------------------------------

Fleet::Fleet(engine::ModelInfo model, std::vector<Worker> workers, std::unique_ptr<router::Strategy> strategy,
             FleetOptions options)
    : model_(std::move(model)), state_(std::make_shared<State>(std::move(strategy), options)) {
  state_->set_workers(std::move(workers));
}

Fleet::~Fleet() { state_->close(); }

void Fleet::set_workers(std::vector<Worker> workers) { state_->set_workers(std::move(workers)); }
std::vector<Fleet::Status> Fleet::status() const { return state_->status(); }
std::uint64_t Fleet::retries() const { return state_->retries(); }

Result<void> Fleet::submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) {
  return state_->submit(std::move(request), std::move(sink));
}

void Fleet::cancel(RequestId id) { state_->cancel(id); }
std::string Fleet::would_place(const engine::GenerateRequest& request) { return state_->would_place(request); }

engine::EngineStats Fleet::stats() const {
  engine::EngineStats sum;
  for (const auto& slot : state_->slots()) {
    const auto one = slot->engine->stats();
    sum.running += one.running;
    sum.waiting += one.waiting;
    sum.prompt_tokens += one.prompt_tokens;
    sum.cached_tokens += one.cached_tokens;
    sum.computed_tokens += one.computed_tokens;
    sum.generated_tokens += one.generated_tokens;
    sum.preemptions += one.preemptions;
    sum.steps += one.steps;
    sum.cache_blocks += one.cache_blocks;
    sum.cache_blocks_used += one.cache_blocks_used;
    sum.cells_total += one.cells_total;
    sum.cells_used += one.cells_used;
    sum.sequences_used += one.sequences_used;
    sum.evicted_blocks += one.evicted_blocks;
  }
  return sum;
}

bool Fleet::healthy() const {
  const auto slots = state_->slots();
  return std::ranges::any_of(slots, [](const auto& slot) { return slot->engine->healthy(); });
}

}  // namespace kvern::pipeline
