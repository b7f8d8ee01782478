// A small request to a worker whose whole answer is wanted: probes and the doctor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "net/http_client.h"

namespace kvern::engine {

struct Fetched {
  int status = 0;
  net::Headers headers;
  std::string body;
};

/// Sends `request` on the client's loop and calls `done` there once, unless it is cancelled or the client goes. The
/// answer is bounded by `request.body_bytes_max`. Returns the client's handle.
std::uint64_t fetch(net::Client& client, net::ClientRequest request, std::function<void(Result<Fetched>)> done);

}  // namespace kvern::engine
