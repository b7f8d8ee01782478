// What a worker's refusal means for the client, in kvern's own words: the worker's text may hold its paths, addresses
// or another's data, so it goes to the log only.
#pragma once

#include <string_view>

#include "base/result.h"
#include "net/headers.h"

namespace kvern::engine {

struct Refusal {
  Error error;
  /// It was about `priority`, which this worker's scheduler does not take: the same request without it will do.
  bool priority_refused = false;
};

/// `status` is not 200. `body` may be anything.
Refusal read_refusal(int status, const net::Headers& headers, std::string_view body);

}  // namespace kvern::engine
