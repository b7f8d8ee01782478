// A load generator for HTTP servers on this machine: connections that each send a request, read the whole answer
// (sized, chunked or event stream) and send the next. One thread, little work per byte, so that it leaves the cores to
// who is measured. Behind `kvern bench http`; not for servers that are not trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvern::net {

struct LoadOptions {
  std::uint16_t port = 0;  // of 127.0.0.1
  std::string path = "/v1/chat/completions";
  std::string body;  // JSON
  std::uint32_t connections = 1;
  std::uint64_t requests_max = ~std::uint64_t{0};
  std::chrono::milliseconds send_for{5'000};  // no new request after it
  /// How long answers under way may take after that; what is left then counts as errors.
  std::chrono::milliseconds wait_for{60'000};
};

/// Microseconds.
struct Distribution {
  std::uint64_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};

struct LoadResult {
  std::uint64_t answers = 0;  // complete, with status 200
  std::uint64_t errors = 0;
  std::string first_error;   // the first such answer as it came, cut; or that the connection broke
  std::uint64_t events = 0;  // of event streams
  std::uint64_t reads = 0;   // that brought events
  double seconds = 0;
  Distribution latency;      // request to the end of its answer
  Distribution first_event;  // request to its first event
  Distribution gap;          // between events of a stream; 0 for those that came in one read
};

/// Blocks until done. kUnavailable when nothing listens there.
Result<LoadResult> run_load(const LoadOptions& options);

}  // namespace kvern::net
