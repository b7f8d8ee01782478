#include "net/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "net/acceptor.h"
#include "net/shard.h"
#include "net/socket.h"

namespace kvern::net {
namespace {

constexpr int kBacklog = 4096;

std::size_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1U << 20U;
  return static_cast<std::size_t>(limit.rlim_cur);
}

/// What is left for workers, files and the connections that are being refused.
std::size_t connections_allowed(std::size_t asked) {
  const std::size_t limit = descriptor_limit();
  const std::size_t reserve = std::min(std::max<std::size_t>(64, limit / 16), limit / 2);
  return asked == 0 ? limit - reserve : std::min(asked, limit - reserve);
}

Error listen_error(int code, const std::string& host, std::uint16_t port) {
  switch (code) {
    case EADDRINUSE:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("port {} is taken; use --port 0 for a free one, or end what listens there", port));
    case EACCES:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("port {} may not be opened by this user; use a port above 1023, or --port 0", port));
    case EADDRNOTAVAIL:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{} is no address of this machine; use --host 127.0.0.1, or 0.0.0.0 for all", host));
    default:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("cannot listen on {} port {}: {}", host, port, std::generic_category().message(code)));
  }
}

struct Listener {
  UniqueFd socket;
  std::uint16_t port = 0;
};

Result<Listener> open_listener(std::string host, std::uint16_t port) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0 || found == nullptr) {
    return fail(ErrorCode::kUnavailable, fmt::format("the host {} is not known; use --host 127.0.0.1", host));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  // `localhost` may be both; 127.0.0.1 is what clients are told to use.
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      found = each;
      break;
    }
  }
  Listener listener;
  listener.socket.reset(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket.valid()) return listen_error(errno, host, port);
  // Takes over from connections that a former server left in TIME_WAIT; never from a listening one.
  const int on = 1;
  static_cast<void>(::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  if (::bind(listener.socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0) {
    return listen_error(errno, host, port);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return listen_error(errno, host, port);
  }
  // The port is at the same place for both families.
  listener.port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return listener;
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerOptions& options, std::vector<Loop*> loops, Handler& handler, Listener listener)
      : loops_(std::move(loops)), port_(listener.port) {
    for (Loop* loop : loops_) shards_.push_back(std::make_shared<Shard>(options, *loop, handler, counters_));
    acceptor_ = std::make_shared<Acceptor>(std::move(listener.socket), connections_allowed(options.connections_max),
                                           shards_, *loops_.front(), handler, counters_);
    for (const auto& shard : shards_) shard->loop().post([shard] { shard->start(); });
    loops_.front()->post([acceptor = acceptor_] { acceptor->start(); });
  }

  ~ServerImpl() override { ServerImpl::stop(); }

  std::uint16_t port() const override { return port_; }

  void drain() override {
    if (stopped_) return;
    loops_.front()->post([acceptor = acceptor_] { acceptor->close(); });
    for (const auto& shard : shards_) shard->loop().post([shard] { shard->drain(); });
  }

  void stop() override {
    if (stopped_.exchange(true)) return;
    loops_.front()->run_and_wait([this] { acceptor_->close(); });
    for (const auto& shard : shards_) {
      shard->loop().run_and_wait([&] { shard->stop(); });
    }
  }

  ServerStats stats() const override {
    ServerStats stats{counters_.accepted.load(), counters_.refused.load(), counters_.open.load(),
                      counters_.exchanges.load()};
    for (const auto& shard : shards_) stats.writes += shard->writes();
    return stats;
  }

 private:
  const std::vector<Loop*> loops_;
  const std::uint16_t port_;
  ServerCounters counters_;
  std::vector<std::shared_ptr<Shard>> shards_;
  std::shared_ptr<Acceptor> acceptor_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options, std::vector<Loop*> loops,
                                               Handler& handler) {
  KV_CHECK(!loops.empty());
  auto listener = open_listener(options.host, options.port);
  if (!listener) return std::move(listener).error();
  try {
    return std::unique_ptr<Server>(
        std::make_unique<ServerImpl>(options, std::move(loops), handler, std::move(*listener)));
  } catch (const std::exception&) {  // epoll or memory: start-up, so said plainly
    return fail(ErrorCode::kUnavailable, "the system gives no descriptors for a server; raise `ulimit -n`");
  }
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  }
  return descriptor_limit();
}

}  // namespace kvern::net
