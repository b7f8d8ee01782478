#include "app/serve.h"

#include <fmt/format.h>

#include <thread>

#include "app/banner.h"
#include "app/engine_metrics.h"
#include "app/http_api.h"
#include "app/model_loader.h"
#include "app/signals.h"
#include "base/terminal.h"
#include "base/worker_pool.h"
#include "net/http_server.h"

namespace kvern::app {
namespace {

constexpr int kExitFailed = 1;
constexpr std::size_t kPoolWaitingMax = 256;
/// After the deadline: time for the failure events to leave.
constexpr auto kFarewell = std::chrono::milliseconds(500);

int complain(const Error& error) {
  write_stderr(fmt::format("kvern: {}\n", error.message));
  return kExitFailed;
}

net::ServerOptions server_options(const Settings& settings) {
  net::ServerOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.body_bytes_max = settings.limits[api::Limit::kBodyBytes];
  options.header_bytes_max = settings.limits[api::Limit::kHeaderBytes];
  options.header_deadline = std::chrono::milliseconds(settings.limits[api::Limit::kHeaderDeadlineMs]);
  options.body_deadline = std::chrono::milliseconds(settings.limits[api::Limit::kBodyDeadlineMs]);
  options.idle_deadline = std::chrono::milliseconds(settings.limits[api::Limit::kIdleDeadlineMs]);
  options.header_fields_max = settings.limits[api::Limit::kHeaderFields];
  options.write_deadline = std::chrono::milliseconds(settings.limits[api::Limit::kWriteDeadlineMs]);
  options.write_buffer_max = settings.limits[api::Limit::kWriteBufferBytes];
  options.connections_max = settings.limits[api::Limit::kConnections];
  return options;
}

void publish_server(Metrics& metrics, const net::Server& server) {
  auto& open = metrics.gauge("kvern_http_connections", "Open connections");
  auto& serving = metrics.gauge("kvern_http_exchanges", "Requests being answered");
  auto& accepted = metrics.gauge("kvern_http_connections_accepted", "Connections accepted since the start");
  auto& refused = metrics.gauge("kvern_http_connections_refused", "Connections refused for want of room");
  auto& writes = metrics.gauge("kvern_http_writes", "Writes to client sockets since the start");
  metrics.on_scrape([&server, &open, &serving, &accepted, &refused, &writes] {
    const auto stats = server.stats();
    open.Set(stats.open);
    serving.Set(stats.exchanges);
    accepted.Set(static_cast<double>(stats.accepted));
    refused.Set(static_cast<double>(stats.refused));
    writes.Set(static_cast<double>(stats.writes));
  });
}

/// Waits until no request is under way, at most `deadline`. True when all ended.
bool wait_for_quiet(const HttpApi& api, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (api.active() > 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

int serve(const Settings& settings) {
  StopSignals signals;
  const bool loopback = settings.host == "localhost" || is_loopback_name(settings.host);
  if (!loopback && !settings.insecure) {
    return complain(
        fail(ErrorCode::kForbidden,
             fmt::format("refusing to listen on {} without keys: anyone who reaches it could use the model. "
                         "Listen on 127.0.0.1 and put an authenticating proxy in front, or say --insecure.",
                         settings.host)));
  }
  net::raise_descriptor_limit();
  const SystemClock clock;
  Log log(settings.log_level);
  auto loaded = load_model(settings, log);
  if (!loaded) return complain(loaded.error());

  Metrics metrics;
  publish_engine(metrics, loaded->model->name, loaded->model->engine);
  const pipeline::ModelSet models({loaded->model});
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  auto pool = std::make_unique<WorkerPool>(cores, kPoolWaitingMax);
  std::vector<std::unique_ptr<net::Loop>> loops;
  std::vector<net::Loop*> loop_pointers;
  for (unsigned i = 0; i < (settings.loops == 0 ? cores : settings.loops); ++i) {
    loops.push_back(net::Loop::create(clock));
    loop_pointers.push_back(loops.back().get());
  }
  HttpApi api({clock, log, metrics, *pool, models, settings.limits,
               GuardOptions{loopback, settings.allowed_hosts, settings.allowed_origins}, loop_pointers});
  auto server = net::Server::listen(server_options(settings), loop_pointers, api);
  if (!server) {
    for (auto& loop : loops) loop->stop();
    return complain(server.error());
  }
  publish_server(metrics, **server);

  signals.arm();
  const std::string url = base_url(settings.host, (*server)->port());
  write_stderr(fmt::format("listening on {}\n{}", url, banner(*loaded, url)));

  while (!signals.wait(std::chrono::hours(1))) {
  }
  api.drain();
  if (api.active() > 0) {
    write_stderr(fmt::format("kvern: finishing {} request(s), at most {} s more; once more Ctrl-C stops at once\n",
                             api.active(), settings.drain_deadline.count() / 1000));
  }
  if (!wait_for_quiet(api, settings.drain_deadline)) {
    log.warn("drain deadline", {{"requests", static_cast<std::uint64_t>(api.active())}});
    api.fail_all();
    wait_for_quiet(api, kFarewell);
  }
  (*server)->drain();  // what was answered leaves before its connection closes
  const auto flushed_by = std::chrono::steady_clock::now() + kFarewell;
  while ((*server)->stats().exchanges > 0 && std::chrono::steady_clock::now() < flushed_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  (*server)->stop();
  pool.reset();  // its work posts to loops and looks at the api: done before either goes
  for (auto& loop : loops) loop->stop();
  log.flush();
  return 0;
}

}  // namespace kvern::app
