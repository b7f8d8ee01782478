#include "sim/sim_engine.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "sim/draw.h"
#include "sim/sim_model.h"

namespace kvern::sim {
namespace {

using engine::EngineEvent;

// How long a cancelled stream may still bring events: longer than a step and the way back.
constexpr Duration kLateFor = std::chrono::seconds(1);

bool is_last(const EngineEvent& event) {
  return std::holds_alternative<engine::Finished>(event.body) || std::holds_alternative<engine::Failed>(event.body);
}

}  // namespace

SimEngine::SimEngine(World& world, const std::string& name, const engine::SchedulerOptions& options,
                     const WireOptions& wire)
    : world_(world),
      rng_(world.fork_rng()),
      wire_(wire),
      info_{.name = name, .context_tokens = options.context_tokens, .vocab_size = SimTokenizer().size()},
      worker_(world, name, options, [this](std::vector<EngineEvent> events) { take_step(std::move(events)); }) {}

Duration SimEngine::delay() { return draw(rng_, wire_.delay_min, wire_.delay_max); }

engine::EngineStats SimEngine::stats() const {
  return worker_.up() ? worker_.scheduler()->stats() : engine::EngineStats{};
}

Result<void> SimEngine::submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) {
  KV_CHECK(sink != nullptr);
  if (!reachable_) return kvern::fail(ErrorCode::kUnavailable, "the worker cannot be reached");
  if (world_.now() < refusing_until_) return kvern::fail(ErrorCode::kOverloaded, "the worker has too much to do");
  const StreamId id{next_stream_++};
  if (!by_request_.emplace(request.id, id).second) {
    return kvern::fail(ErrorCode::kInternal, "a request with this id is running");
  }
  world_.note(name(), "stream {} for {}: {} prompt tokens, at most {} more", id.value, to_string(request.id),
              request.prompt.size(), request.max_tokens);
  Stream stream;
  stream.request = request.id;
  stream.sink = std::move(sink);
  stream.progress = stream.reaches_worker = stream.reaches_us = world_.now();
  Stream& opened = streams_.emplace(id, std::move(stream)).first->second;
  request.id = id;
  send(opened, [this, request = std::move(request)]() mutable { connect(std::move(request)); });
  watch(id);
  return {};
}

void SimEngine::cancel(RequestId request) {
  const auto found = by_request_.find(request);
  if (found == by_request_.end()) return;
  const StreamId id = found->second;
  by_request_.erase(found);
  Stream& stream = streams_.at(id);
  stream.cancelled = true;
  ++(stream.first_token ? cancels_.in_text : stream.accepted ? cancels_.in_prefill : cancels_.waiting);
  world_.note(name(), "stream {} cancelled", id.value);
  send(stream, [this, id] { worker_.cancel(id); });
  if (chance(rng_, wire_.late_events)) {
    world_.after(kLateFor, [this, id] { streams_.erase(id); });
  } else {
    streams_.erase(id);
  }
}

/// To the worker, behind what was sent before on this stream.
void SimEngine::send(Stream& stream, std::function<void()> arrives) {
  stream.reaches_worker = std::max(stream.reaches_worker, world_.now()) + delay();
  // Equal instants come in any order, so one on the same stream is a nanosecond later.
  stream.reaches_worker += Duration(1);
  world_.at(stream.reaches_worker, std::move(arrives));
}

void SimEngine::connect(engine::GenerateRequest request) {
  if (worker_.up()) return worker_.submit(std::move(request));
  if (!black_hole_) break_stream(request.id, ErrorCode::kUnavailable, "the connection was refused");
}

// --- From the worker ----------------------------------------------------------------------------------------------

void SimEngine::take_step(std::vector<EngineEvent> events) {
  if (wire_.together) {
    step_reaches_us_ = std::max(step_reaches_us_, world_.now()) + delay() + Duration(1);
    for (const auto& event : events) {
      const auto found = streams_.find(event.id);
      if (found != streams_.end()) found->second.reaches_us = step_reaches_us_;
    }
    world_.at(step_reaches_us_, [this, batch = std::move(events)]() mutable { arrive(std::move(batch)); });
    return;
  }
  std::map<StreamId, std::vector<EngineEvent>> apart;
  for (auto& event : events) apart[event.id].push_back(std::move(event));
  for (auto& [id, its] : apart) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    TimePoint& arrival = found->second.reaches_us;
    arrival = std::max(arrival, world_.now()) + delay() + Duration(1);
    world_.at(arrival, [this, batch = std::move(its)]() mutable { arrive(std::move(batch)); });
  }
}

/// One call for each sink, with all it gets in the order made.
void SimEngine::arrive(std::vector<EngineEvent> events) {
  std::vector<std::pair<std::shared_ptr<engine::EventSink>, std::vector<EngineEvent>>> calls;
  for (EngineEvent& event : events) {
    const auto found = streams_.find(event.id);
    if (found == streams_.end() || found->second.cut) continue;
    Stream& stream = found->second;
    stream.progress = world_.now();
    stream.accepted = true;
    stream.first_token = stream.first_token || std::holds_alternative<engine::Output>(event.body);
    auto call = std::ranges::find_if(calls, [&](const auto& each) { return each.first == stream.sink; });
    if (call == calls.end()) call = calls.insert(call, {stream.sink, {}});
    event.id = stream.request;
    if (stream.cancelled && chance(rng_, 0.3)) call->second.push_back(event);
    const bool last = is_last(event);
    call->second.push_back(std::move(event));
    if (!last) continue;
    if (!stream.cancelled) by_request_.erase(stream.request);
    streams_.erase(found);
  }
  for (auto& [sink, its] : calls) sink->on_events(std::move(its));
}

void SimEngine::watch(StreamId id) {
  const Stream& stream = streams_.at(id);
  const Duration timeout = stream.first_token ? wire_.between_tokens_timeout : wire_.first_token_timeout;
  world_.at(stream.progress + timeout, [this, id, timeout] {
    const auto found = streams_.find(id);
    if (found == streams_.end() || found->second.cancelled) return;
    if (world_.now() < found->second.progress + timeout) return watch(id);
    fail(id, kvern::fail(ErrorCode::kTimeout, "the worker sent nothing for too long"));
  });
}

/// The connection ends after what is under way on it.
void SimEngine::break_stream(StreamId id, ErrorCode code, const char* why) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  TimePoint& arrival = found->second.reaches_us;
  arrival = std::max(arrival, world_.now()) + delay() + Duration(1);
  world_.at(arrival, [this, id, code, why] { fail(id, kvern::fail(code, why)); });
}

void SimEngine::fail(StreamId id, Error error) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.cancelled) return;
  world_.note(name(), "stream {} failed: {}", id.value, error.message);
  Stream stream = std::move(found->second);
  streams_.erase(found);
  by_request_.erase(stream.request);
  send(stream, [this, id] { worker_.cancel(id); });
  std::vector<EngineEvent> events;
  events.push_back({stream.request, engine::Failed{std::move(error)}});
  stream.sink->on_events(std::move(events));
}

// --- Faults -------------------------------------------------------------------------------------------------------

void SimEngine::crash(bool loud) {
  if (!worker_.up()) return;
  world_.note(name(), "{}", loud ? "CRASH" : "VANISHES");
  worker_.crash();
  black_hole_ = !loud;
  if (!loud) return;
  reachable_ = false;
  for (const auto& [id, stream] : streams_) break_stream(id, ErrorCode::kUnavailable, "the worker is gone");
}

void SimEngine::restart() {
  if (worker_.up()) return;
  world_.note(name(), "RESTART");
  worker_.restart();
  reachable_ = true;
  // Connections of its former life are reset, those that vanished too.
  for (const auto& [id, stream] : streams_) {
    if (black_hole_) break_stream(id, ErrorCode::kUnavailable, "the worker was restarted");
  }
  black_hole_ = false;
}

bool SimEngine::cut_one(bool loud) {
  if (by_request_.empty()) return false;
  const auto pick = std::next(by_request_.begin(), static_cast<std::ptrdiff_t>(rng_.below(by_request_.size())));
  const StreamId id = pick->second;
  world_.note(name(), "stream {} {}", id.value, loud ? "CUT" : "FADES");
  streams_.at(id).cut = true;
  if (loud) break_stream(id, ErrorCode::kEngine, "the worker's answer broke off");
  return true;
}

void SimEngine::heal() {
  restart();
  worker_.resume();
  worker_.fail_decodes(0);
  refusing_until_ = world_.now();
  wire_.late_events = 0;
}

}  // namespace kvern::sim
