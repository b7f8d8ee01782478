// Notices at once that a peer has hung up, whatever its connection is doing: also when nobody reads (its request is
// queued or being served) and when its unread bytes fill our buffers. A nested epoll set asks for EPOLLRDHUP, edge
// triggered, on every connection; its descriptor is readable when some peer has gone. Costs one registration per
// connection and nothing per request, where polling all sockets every 50 ms would cost time per stream.
#pragma once

#include <cstdint>
#include <functional>

#include "net/socket.h"

namespace kvern::net {

/// How a peer left: kHalf has shut down its sending side only (or closed; the two look alike until we send).
enum class Hangup { kHalf, kFull };

class HangupWatch {
 public:
  /// Throws std::system_error when the kernel refuses (start-up).
  HangupWatch();
  int fd() const { return epoll_.get(); }
  /// Watches a socket under a name; false when the kernel refuses.
  bool add(int fd, std::uint64_t id);
  void remove(int fd);
  /// Calls `gone` for every peer that left since the last call.
  void collect(const std::function<void(std::uint64_t id, Hangup how)>& gone);

 private:
  UniqueFd epoll_;
};

}  // namespace kvern::net
