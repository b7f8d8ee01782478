// A server on port 0 with a handler that tests steer: quick answers by path, and exchanges that are kept so that the
// test decides when and how they are answered.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"

namespace kvern::net::testing {

/// One request that a test keeps (path /hold): used on its loop by `on_loop`.
struct Held {
  Request request;
  std::shared_ptr<Exchange> exchange;
};

/// Paths: /echo answers method, path and body; /hold keeps the exchange; /stream?N sends N events at once; /big?N
/// answers N bytes; /empty 204; /drop lets go of the exchange; /refuse is refused by admit with 401; others 404.
class SteeredHandler final : public Handler {
 public:
  std::optional<Response> admit(const RequestHead& head) override;
  void serve(Request request, std::shared_ptr<Exchange> exchange) override;
  Response refuse(int status, std::string_view reason, const RequestHead& head) override;

  /// Waits until `count` exchanges are held in all; the last one.
  std::shared_ptr<Held> wait_held(std::size_t count);
  /// Lets go of the held exchanges on their loops.
  void forget();
  std::size_t served() const;
  /// Waits until `count` clients were reported gone.
  bool wait_gone(std::size_t count, std::chrono::milliseconds within);
  std::size_t gone() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Held>> held_;
  std::size_t served_ = 0;
  std::size_t gone_ = 0;
};

class TestServer {
 public:
  explicit TestServer(const ServerOptions& options = {}, std::size_t loops = 1);
  ~TestServer();
  std::uint16_t port() const { return server_->port(); }
  Server& server() { return *server_; }
  Loop& loop(std::size_t index = 0) { return *loops_.at(index); }
  SteeredHandler& handler() { return handler_; }
  /// Runs `use` on the exchange's loop and waits for it.
  void on_loop(const std::shared_ptr<Held>& held, const std::function<void(Exchange&)>& use);
  /// Waits until the server counts this many open connections.
  bool wait_open(std::uint32_t count, std::chrono::milliseconds within = std::chrono::seconds(5));
  bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds within = std::chrono::seconds(5));

 private:
  SystemClock clock_;
  SteeredHandler handler_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unique_ptr<Server> server_;
};

/// Resident memory of this process.
std::size_t resident_bytes();

/// Sanitizers shadow memory and keep what was freed: bounds on growth are this many times as wide under them.
#ifdef KVERN_SANITIZED
inline constexpr std::size_t kMemoryFactor = 16;
#else
inline constexpr std::size_t kMemoryFactor = 1;
#endif

}  // namespace kvern::net::testing
