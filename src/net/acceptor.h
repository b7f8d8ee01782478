// Accepts for all shards of a server, on the first loop, and hands each connection to the shard with the fewest. One
// listening socket rather than one per loop with SO_REUSEPORT: the kernel then refuses a port that another process
// holds (with SO_REUSEPORT two servers of one user would silently share it), few long-lived connections spread evenly,
// and bounds and descriptor shortage are handled in one place. The hop to another loop costs microseconds per
// connection.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <vector>

#include "net/http_server.h"
#include "net/shard.h"
#include "net/socket.h"

namespace kvern::net {

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(UniqueFd listener, std::size_t connections_max, std::vector<std::shared_ptr<Shard>> shards, Loop& loop,
           Handler& handler, ServerCounters& counters);
  void start();
  /// Takes in what waits, then closes the listening socket. On the loop.
  void close();

 private:
  enum class Outcome { kAccepted, kRefused, kNone, kNoDescriptor };

  void arm();
  void accept_some();
  Outcome accept_one();
  Outcome shed_one();
  void pause();
  void refuse_and_close(UniqueFd socket);
  void hand_out(UniqueFd socket, bool refuse);

  const std::size_t connections_max_;
  const std::vector<std::shared_ptr<Shard>> shards_;
  Loop& loop_;
  Handler& handler_;
  ServerCounters& counters_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> listener_;  // null once closed
  boost::asio::steady_timer pause_;
  /// Given up to accept one connection, and so to refuse it, when there is no other descriptor.
  UniqueFd reserve_;
  std::size_t next_shard_ = 0;
};

}  // namespace kvern::net
