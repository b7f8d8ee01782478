// What a command serves over HTTP, as the part that runs it sees it.
#pragma once

#include <cstddef>

#include "net/http_server.h"

namespace kvern::app {

class Service : public net::Handler {
 public:
  /// New requests get 503 from here on; those under way go on. Thread-safe.
  virtual void drain() = 0;
  /// Requests under way on all loops. Thread-safe.
  virtual std::size_t active() const = 0;
  /// Ends what is under way with a failure (an event in a stream). Thread-safe; takes a turn of each loop.
  virtual void fail_all() = 0;
};

}  // namespace kvern::app
