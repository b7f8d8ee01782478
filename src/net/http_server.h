// HTTP/1.1 server. Parsing is Boost.Beast's; this file's business is what a service needs around it: bounds on time and
// bytes, hang-ups noticed within 100 ms at any stage, writes coalesced per turn of the loop, and an orderly drain.
//
// Life of an exchange: head parsed -> Handler::admit (may refuse before the body is read) -> body read ->
// Handler::serve with an Exchange, on which the handler answers now or later, whole or in pieces, on the same loop.
// Pipelined requests are served one after the other, in order. Behind a request that is being served up to 64 KB are
// kept; with more, the connection ends after the present answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/headers.h"
#include "net/loop.h"
#include "net/request_reader.h"

namespace kvern::net {

struct Request {
  RequestHead head;
  std::string body;
};

struct Response {
  int status = 200;
  Headers headers;  // content-length, date and connection are the server's
  std::string body;
  bool close = false;  // end the connection after this answer
};

/// The answering side of one request. Lives on one loop and is used only there. Safe to hold after the client is gone:
/// calls then do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Loop& loop() = 0;
  /// The whole answer. For HEAD the body is left out and its length kept.
  virtual void respond(Response response) = 0;
  /// Begins a streamed answer (chunked on 1.1; until close on 1.0).
  virtual void start(int status, Headers headers) = 0;
  /// Adds bytes to a streamed answer; they leave at the end of this turn, together, as one chunk. Never blocks. When
  /// the client has fallen behind and more than the slow-reader bound waits already, the connection ends and `on_gone`
  /// is called; a single write may be of any size.
  virtual void write(std::string_view bytes) = 0;
  /// Ends a streamed answer.
  virtual void finish() = 0;
  /// Breaks the connection off, without on_gone. The same happens to an exchange that is let go of unanswered.
  virtual void abort() = 0;
  virtual bool gone() const = 0;
  /// The client has not taken all that was written in earlier turns: who has much to write waits for it.
  virtual bool behind() const = 0;
  /// Called once on the loop when the client hangs up, stalls or is cut off before the answer is complete; also by
  /// Server::stop, and a little later when the client is gone already. Never from within a call of the exchange. A
  /// client that shuts only its sending side counts as hung up, too, since the two look alike from here. Replaces an
  /// earlier callback; dropped with the exchange.
  virtual void on_gone(std::function<void()> callback) = 0;
};

class Handler {
 public:
  virtual ~Handler() = default;
  /// Sees a head before its body is read: a Response refuses it (an unread body is discarded up to a bound, then the
  /// connection closes). Called on the connection's loop.
  virtual std::optional<Response> admit(const RequestHead& head) = 0;
  /// Serves a complete request on its loop.
  virtual void serve(Request request, std::shared_ptr<Exchange> exchange) = 0;
  /// The answer to what could not be parsed or broke a bound (400, 408, 413, 431, 501, 503); the connection then
  /// closes. `head` is what is known of the request: perhaps its path and headers, perhaps nothing.
  virtual Response refuse(int status, std::string_view reason, const RequestHead& head) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t header_bytes_max = 64U << 10U;
  std::size_t header_fields_max = 256;
  std::size_t body_bytes_max = 32U << 20U;
  /// From a request's first byte to the end of its head.
  std::chrono::milliseconds header_deadline{10'000};
  /// From the end of the head to the end of the body.
  std::chrono::milliseconds body_deadline{60'000};
  /// A connection that has sent nothing, or rests between requests.
  std::chrono::milliseconds idle_deadline{75'000};
  /// A reader that takes no byte for this long, while some wait, is cut off.
  std::chrono::milliseconds write_deadline{30'000};
  /// Unsent bytes of a streamed answer beyond which a reader is cut off.
  std::size_t write_buffer_max = 1U << 20U;
  std::size_t connections_max = 0;  // at most what the descriptor limit allows, less a reserve; 0: that
};

struct ServerStats {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  // over connections_max or out of descriptors
  std::uint32_t open = 0;
  std::uint32_t exchanges = 0;  // requests being served, until the last byte of the answer has left
  std::uint64_t writes = 0;     // to sockets, since the start
};

/// Listens on one socket and spreads its connections over the loops given, so that a port held by another process is an
/// error (acceptor.h says more). Thread-safe, but for destruction.
class Server {
 public:
  virtual ~Server() = default;
  /// Binds and listens; kUnavailable with what to do when the address is taken. `handler` and `loops` outlive it.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, std::vector<Loop*> loops,
                                                Handler& handler);
  virtual std::uint16_t port() const = 0;
  /// Stops accepting and closes idle connections; answers under way go on, and each connection closes after its answer.
  virtual void drain() = 0;
  /// Ends every connection; exchanges under way are told (on_gone) before it returns. After it no handler is called.
  /// May be called on one of its loops, or after they stopped (exchanges are then told on the calling thread).
  virtual void stop() = 0;
  virtual ServerStats stats() const = 0;
};

/// Raises the soft limit of open descriptors to the hard one. Returns the limit in force.
std::size_t raise_descriptor_limit();

}  // namespace kvern::net
