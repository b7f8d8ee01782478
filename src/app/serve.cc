#include "app/serve.h"

#include <fmt/format.h>

#include <cstdlib>

#include "app/banner.h"
#include "app/engine_metrics.h"
#include "app/http_api.h"
#include "app/keys.h"
#include "app/model_loader.h"
#include "app/run_service.h"
#include "app/seal_key.h"
#include "app/workers.h"

namespace kvern::app {
namespace {

/// What can answer: an engine in this process, or workers. Ends after the loops.
struct Source {
  std::optional<LoadedModel> loaded;
  std::unique_ptr<Workers> workers;
};

/// With --workers, what describes an engine of one's own would be ignored: better to say so. Not where it changes only
/// how fast that is: a config file may be shared with `kvern worker`.
Result<void> check_sources(const Settings& settings) {
  if (settings.workers.empty()) return {};
  for (const auto& [flag, given] : {std::pair("--model", !settings.model.empty()),
                                    {"--name", !settings.name.empty()},
                                    {"--engine", settings.engine != "embedded"},
                                    {"--ctx", settings.ctx != 0}}) {
    if (!given) continue;
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("{} does not go with --workers, which replaces the embedded engine. To serve a model of "
                            "this machine as well, start `kvern worker` with it and name that in {}.",
                            flag, settings.workers));
  }
  return {};
}

Result<void> load(Source& source, pipeline::ModelSet& models, const Settings& settings, Log& log, Metrics& metrics,
                  const std::vector<net::Loop*>& loops) {
  if (!settings.workers.empty()) {
    auto workers = Workers::start({settings, log, metrics, loops, models});
    if (!workers) return workers.error();
    source.workers = *std::move(workers);
    return {};
  }
  auto loaded = load_model(settings, log);
  if (!loaded) return loaded.error();
  models.replace({loaded->model});
  publish_engine(metrics, loaded->model->name, [engine = loaded->model->engine] { return engine->stats(); });
  source.loaded = *std::move(loaded);
  return {};
}

}  // namespace

int serve(const Settings& settings) {
  StopSignals signals;
  if (auto allowed = check_listen(settings, !settings.keys.empty()); !allowed) return complain(allowed.error());
  if (auto checked = check_sources(settings); !checked) return complain(checked.error());
  const auto keys = Keys::make(settings.keys, [](const char* name) { return std::getenv(name); });
  if (!keys) return complain(keys.error());
  net::raise_descriptor_limit();
  const SystemClock clock;
  Log log(settings.log_level);
  Metrics metrics;
  Threads threads(settings, clock);
  pipeline::ModelSet models({});
  Source source;
  if (auto loaded = load(source, models, settings, log, metrics, threads.loops()); !loaded) {
    return complain(loaded.error());
  }
  auto seal_key =
      load_seal_key(settings.seal_key_file, settings.state_dir.empty() ? default_state_dir() : settings.state_dir);
  if (!seal_key) return complain(seal_key.error());
  if (!seal_key->warning.empty()) log.warn("seal key", {{"why", seal_key->warning}});
  const Seal seal(seal_key->key);
  HttpApi api({clock, log, metrics, threads.pool(), models, settings.limits, guard_options(settings), *keys,
               threads.loops(), seal, settings.reasoning_events});
  const auto greeting = [&](const std::string& url) {
    return source.loaded ? banner(*source.loaded, url, !keys->empty())
                         : workers_banner(source.workers->lines(), url, !keys->empty());
  };
  const auto on_quiet = [&] {
    if (source.workers) source.workers->stop();
  };
  return run_service({settings, signals, log, metrics, threads, api, greeting, on_quiet});
}

}  // namespace kvern::app
