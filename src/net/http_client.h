// HTTP/1.1 client for workers, over the same parser. One request per connection at a time; a connection goes back to
// the pool only after its answer was read to the end and nothing surplus came, so an unread or cancelled answer can
// never reach another request. No redirects are followed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/headers.h"
#include "net/loop.h"
#include "net/response_reader.h"

namespace kvern::net {

struct ClientRequest {
  std::string host;  // name or address, no port
  std::uint16_t port = 0;
  std::string method = "GET";
  std::string target = "/";
  Headers headers;  // host, content-length and connection are the client's
  std::string body;
  std::chrono::milliseconds connect_deadline{2'000};
  /// From the request sent (and from each part of it taken) to the first byte of the head.
  std::chrono::milliseconds first_byte_deadline{60'000};
  /// Between reads, once bytes have come.
  std::chrono::milliseconds between_deadline{60'000};
  /// The peer sends small pieces as they come (TCP_NODELAY), so it never waits for an acknowledgement, and they may
  /// come late and for several pieces at once: a packet and its way through the kernel less for every other event of a
  /// stream. Where a peer does wait (Nagle's algorithm), that would hold its next piece back for up to 40 ms.
  bool peer_sends_at_once = false;
  std::size_t header_bytes_max = 64U << 10U;
  std::size_t body_bytes_max = 64U << 20U;
};

/// Called on the loop the request was made on; nothing follows on_end. Exactly one on_end comes unless cancelled.
class ClientCallbacks {
 public:
  virtual ~ClientCallbacks() = default;
  virtual void on_head(const ClientHead& head) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_end(Result<void> result) = 0;
};

/// Lives on one loop; used only there, and destroyed there or when the loop has stopped. Requests under way then end
/// without a callback. The loop outlives it.
class Client {
 public:
  virtual ~Client() = default;
  static std::unique_ptr<Client> create(Loop& loop, std::size_t idle_connections_max = 64);
  /// Starts a request; returns a handle for cancel. No callback comes before it returns.
  virtual std::uint64_t send(ClientRequest request, std::shared_ptr<ClientCallbacks> callbacks) = 0;
  /// Closes the request's connection; no callback follows. Does nothing for a request that has ended. May be called
  /// from within the request's own callbacks.
  virtual void cancel(std::uint64_t handle) = 0;
};

}  // namespace kvern::net
