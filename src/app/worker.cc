#include "app/worker.h"

#include "app/banner.h"
#include "app/engine_metrics.h"
#include "app/model_loader.h"
#include "app/run_service.h"
#include "app/worker_api.h"

namespace kvern::app {

int worker(const Settings& settings) {
  StopSignals signals;
  if (auto allowed = check_listen(settings); !allowed) return complain(allowed.error());
  net::raise_descriptor_limit();
  const SystemClock clock;
  Log log(settings.log_level);
  auto loaded = load_model(settings, log);
  if (!loaded) return complain(loaded.error());
  Metrics metrics;
  publish_engine(metrics, loaded->model->name, [engine = loaded->model->engine] { return engine->stats(); });
  Threads threads(settings, clock);
  WorkerApi api({clock, log, metrics, threads.pool(), loaded->model, settings.limits, guard_options(settings),
                 threads.loops(), EventSource{}});
  const auto greeting = [&](const std::string& url) { return worker_banner(*loaded, url); };
  return run_service({settings, signals, log, metrics, threads, api, greeting});
}

}  // namespace kvern::app
