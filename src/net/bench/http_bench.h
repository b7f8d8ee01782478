// Measures what the HTTP server costs: CPU time of the server's thread per streamed event and per plain request, over
// loopback with kvern's own client on another thread. Behind `kvern bench http`. Takes seconds; run it on a quiet
// machine.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace kvern::net {

struct HttpBenchOptions {
  std::size_t streams = 64;
  std::size_t events = 2'000;     // per stream
  std::size_t event_bytes = 215;  // an OpenAI chunk with a token
  std::size_t requests = 20'000;
  std::size_t request_bytes = 4'096;
};

struct HttpBenchResult {
  std::size_t streams = 0;
  std::size_t events = 0;                // in all
  double us_per_event = 0;               // one event per stream and turn: each is a write of its own
  double us_per_event_eight_a_turn = 0;  // eight events of a stream in one turn: one write for them all
  std::size_t requests = 0;
  double us_per_request = 0;  // keep-alive, one body in, a small answer out
};

Result<HttpBenchResult> bench_http(const HttpBenchOptions& options);

}  // namespace kvern::net
