#include "app/events_examination.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/events/subscriber.h"

namespace kvern::app {
namespace {

constexpr auto kComesWithin = std::chrono::seconds(5);
constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr auto kReplayedWithin = std::chrono::seconds(3);

constexpr const char* kEventsRemedy =
    R"(--kv-events-config '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557", )"
    R"("replay_endpoint": "tcp://*:5558"}' (kvern worker: --events, --replay); check `events` and `bind`)";

/// Whether blocks came, and from which number on.
struct Came {
  bool stored = false;
  std::optional<std::uint64_t> first;
};

Came listen(engine::events::Subscriber& subscriber, const std::function<void()>& provoke) {
  using Clock = std::chrono::steady_clock;
  Came came;
  // A subscription takes a moment to reach the publisher; what it says before is lost. So it is provoked again.
  for (int attempt = 0; attempt < 2 && !came.stored; ++attempt) {
    provoke();
    const auto until = Clock::now() + kComesWithin / 2;
    while (!came.stored && Clock::now() < until) {
      const auto update = subscriber.next(kLookEvery);
      if (!update) continue;
      const auto* batch = std::get_if<kv::KvEventBatch>(&update->what);
      if (batch == nullptr) continue;
      if (!came.first) came.first = update->sequence;
      came.stored = std::ranges::any_of(
          batch->events, [](const auto& event) { return std::holds_alternative<kv::BlockStored>(event); });
    }
  }
  return came;
}

/// Asks for everything from the first message on, as an index that starts late does.
Check check_replay(const WorkerSpec& spec, const std::function<void()>& provoke) {
  engine::events::SubscriberOptions options;
  options.endpoint = spec.events;
  options.bind = spec.bind;
  options.replay_endpoint = spec.replay;
  auto subscriber = engine::events::Subscriber::create(options);
  const std::string costs = "a missed event is not made up for: what is cached is known only in part";
  if (!subscriber) return {"KV event replay", Finding::kFault, subscriber.error().message, costs, "check `replay`"};
  provoke();
  const auto until = std::chrono::steady_clock::now() + kReplayedWithin;
  while (std::chrono::steady_clock::now() < until) {
    const auto update = (*subscriber)->next(kLookEvery);
    // Without a replay a late subscriber begins with a gap.
    if (!update) continue;
    if (std::holds_alternative<kv::KvEventBatch>(update->what)) {
      return {"KV event replay", Finding::kOk, fmt::format("from message {} on", update->sequence), {}, {}};
    }
    if (std::holds_alternative<engine::events::Gap>(update->what)) {
      return {"KV event replay", Finding::kWarning, "the socket does not answer, or has forgotten the beginning", costs,
              R"(add "replay_endpoint" to --kv-events-config (kvern worker: --replay); check `replay`)"};
    }
  }
  return {"KV event replay", Finding::kFault, "nothing comes", costs, "check `replay`"};
}

}  // namespace

std::vector<Check> examine_events(const WorkerSpec& spec, const std::function<void()>& provoke) {
  engine::events::SubscriberOptions options;
  options.endpoint = spec.events;
  options.bind = spec.bind;
  auto subscriber = engine::events::Subscriber::create(options);
  const std::string costs = "kvern does not see what this worker has cached";
  if (!subscriber) return {{"KV events", Finding::kFault, subscriber.error().message, costs, "check `events`, `bind`"}};
  const Came came = listen(**subscriber, provoke);
  subscriber->reset();
  std::vector<Check> checks;
  if (came.stored) {
    checks.push_back({"KV events", Finding::kOk, "stored blocks are told", {}, {}});
  } else {
    checks.push_back({"KV events", Finding::kFault,
                      came.first ? "events come, but none of stored blocks" : "nothing comes", costs, kEventsRemedy});
    return checks;
  }
  if (spec.replay.empty()) {
    checks.push_back({"KV event replay", Finding::kWarning, "no `replay` in the workers file",
                      "a missed event is not made up for: what is cached is known only in part",
                      "name the worker's replay endpoint as `replay`"});
  } else {
    checks.push_back(check_replay(spec, provoke));
  }
  return checks;
}

}  // namespace kvern::app
