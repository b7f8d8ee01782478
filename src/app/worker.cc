#include "app/worker.h"

#include <fmt/format.h>

#include "app/banner.h"
#include "app/engine_metrics.h"
#include "app/model_loader.h"
#include "app/run_service.h"
#include "app/worker_api.h"
#include "engine/events/endpoint.h"
#include "engine/events/publisher.h"

namespace kvern::app {
namespace {

using engine::events::Publisher;

/// Null without --events.
Result<std::shared_ptr<Publisher>> make_publisher(const Settings& settings) {
  if (settings.events.empty()) {
    if (settings.replay.empty()) return std::shared_ptr<Publisher>();
    return fail(ErrorCode::kInvalidRequest, "--replay goes only with --events");
  }
  for (const auto& endpoint : {settings.events, settings.replay}) {
    if (settings.insecure || !engine::events::beyond_loopback(endpoint)) continue;
    return fail(ErrorCode::kForbidden,
                fmt::format("refusing to publish KV events at {}: they hold the token ids of prompts, and ZeroMQ asks "
                            "nobody who he is. Use 127.0.0.1, or say --insecure on a network of trust.",
                            endpoint));
  }
  engine::events::PublisherOptions options;
  options.endpoint = settings.events;
  options.replay_endpoint = settings.replay;
  auto publisher = Publisher::create(options);
  if (!publisher) return publisher.error();
  return std::shared_ptr<Publisher>(*std::move(publisher));
}

EventSource source_of(const std::shared_ptr<Publisher>& publisher, const Settings& settings) {
  if (!publisher) return {};
  return {publisher->endpoint(), publisher->replay_endpoint(), !engine::events::binds_by_default(settings.events)};
}

void publish_events(Metrics& metrics, const std::shared_ptr<Publisher>& publisher) {
  auto& batches = metrics.gauge("kvern_kv_event_batches", "Batches of KV events published since the start");
  auto& lost = metrics.gauge("kvern_kv_event_batches_lost", "Of those, lost by a subscriber that was too slow");
  auto& replays = metrics.gauge("kvern_kv_event_replays", "Replays answered");
  metrics.on_scrape([publisher, &batches, &lost, &replays] {
    const auto stats = publisher->stats();
    batches.Set(static_cast<double>(stats.batches));
    lost.Set(static_cast<double>(stats.batches_lost));
    replays.Set(static_cast<double>(stats.replays));
  });
}

}  // namespace

int worker(const Settings& settings) {
  StopSignals signals;
  if (auto allowed = check_listen(settings, false); !allowed) return complain(allowed.error());
  net::raise_descriptor_limit();
  const SystemClock clock;
  Log log(settings.log_level);
  auto publisher = make_publisher(settings);
  if (!publisher) return complain(publisher.error());
  auto loaded = load_model(settings, log, *publisher);
  if (!loaded) return complain(loaded.error());
  Metrics metrics;
  if (*publisher) publish_events(metrics, *publisher);
  publish_engine(metrics, loaded->model->name, [engine = loaded->model->engine] { return engine->stats(); });
  Threads threads(settings, clock);
  WorkerApi api({clock, log, metrics, threads.pool(), loaded->model, settings.limits, guard_options(settings),
                 threads.loops(), source_of(*publisher, settings)});
  const auto greeting = [&](const std::string& url) {
    return worker_banner(*loaded, source_of(*publisher, settings), url);
  };
  return run_service({settings, signals, log, metrics, threads, api, greeting});
}

}  // namespace kvern::app
