#include "app/run_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app/banner.h"
#include "base/terminal.h"

namespace kvern::app {
namespace {

constexpr int kExitFailed = 1;
constexpr std::size_t kPoolWaitingMax = 256;
/// After the deadline: time for the failure events to leave.
constexpr auto kFarewell = std::chrono::milliseconds(500);

bool is_loopback(const Settings& settings) { return settings.host == "localhost" || is_loopback_name(settings.host); }

unsigned cores() { return std::max(1U, std::thread::hardware_concurrency()); }

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
bool wait_for_quiet(const Service& service, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (service.active() > 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void drain(const RunParts& parts, net::Server& server) {
  Service& service = parts.service;
  service.drain();
  if (service.active() > 0) {
    write_stderr(fmt::format("kvern: finishing {} request(s), at most {} s more; once more Ctrl-C stops at once\n",
                             service.active(), parts.settings.drain_deadline.count() / 1000));
  }
  const auto until = std::chrono::steady_clock::now() + parts.settings.drain_deadline;
  if (!wait_for_quiet(service, parts.settings.drain_deadline)) {
    parts.log.warn("drain deadline", {{"requests", static_cast<std::uint64_t>(service.active())}});
    service.fail_all();
    wait_for_quiet(service, kFarewell);
  }
  server.drain();  // what was answered leaves before its connection closes
  const auto flushed_by = std::max(until, std::chrono::steady_clock::now() + kFarewell);
  while (server.stats().exchanges > 0 && std::chrono::steady_clock::now() < flushed_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

int complain(const Error& error) {
  write_stderr(fmt::format("kvern: {}\n", error.message));
  return kExitFailed;
}

Result<void> check_listen(const Settings& settings, bool asks_for_keys) {
  if (is_loopback(settings) || settings.insecure || asks_for_keys) return {};
  return fail(
      ErrorCode::kForbidden,
      fmt::format("refusing to listen on {} without keys: anyone who reaches it could use the model. Set `keys` "
                  "in the config (`kvern serve` only), listen on 127.0.0.1 and put an authenticating proxy in "
                  "front, or say --insecure.",
                  settings.host));
}

GuardOptions guard_options(const Settings& settings) {
  return {is_loopback(settings), settings.allowed_hosts, settings.allowed_origins};
}

Threads::Threads(const Settings& settings, const Clock& clock)
    : pool_(std::make_unique<WorkerPool>(cores(), kPoolWaitingMax)) {
  for (unsigned i = 0; i < (settings.loops == 0 ? cores() : settings.loops); ++i) {
    loops_.push_back(net::Loop::create(clock));
    pointers_.push_back(loops_.back().get());
  }
}

Threads::~Threads() { stop(); }

void Threads::stop() {
  pool_.reset();  // its work posts to loops
  for (auto& loop : loops_) loop->stop();
}

int run_service(const RunParts& parts) {
  auto server = net::Server::listen(server_options(parts.settings), parts.threads.loops(), parts.service);
  if (!server) {
    parts.on_quiet();
    parts.threads.stop();
    return complain(server.error());
  }
  publish_server(parts.metrics, **server);
  parts.signals.arm();
  const std::uint16_t port = (*server)->port();
  write_stderr(fmt::format("listening on {}\n{}", base_url(parts.settings.host, port),
                           parts.banner(base_url(reachable_host(parts.settings.host), port))));
  while (!parts.signals.wait(std::chrono::hours(1))) {
  }
  drain(parts, **server);
  (*server)->stop();
  parts.on_quiet();
  parts.threads.stop();
  parts.log.flush();
  return 0;
}

}  // namespace kvern::app
