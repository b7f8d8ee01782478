// Asking a worker who it is: /health, then /v1/models and /version.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/vllm/worker_address.h"
#include "net/http_client.h"

namespace kvern::engine {

/// What a worker says of itself.
struct WorkerFacts {
  std::string model;  // the id to ask it with
  std::uint32_t max_model_len = 0;
  std::string version;  // empty: not told
  bool operator==(const WorkerFacts&) const = default;
};

/// The entry `wanted` of a /v1/models answer, or the first. kUnavailable when there is none or it has no length.
Result<WorkerFacts> read_models(std::string_view body, std::string_view wanted);

/// Asks on the client's loop; `done` is called there once, unless the client goes first. Each of the three questions
/// has `deadline`. Errors are in kvern's own words and name what failed.
void probe_worker(net::Client& client, const WorkerAddress& worker, const std::string& wanted_model,
                  std::chrono::milliseconds deadline, const std::function<void(Result<WorkerFacts>)>& done);
/// /health alone.
void probe_health(net::Client& client, const WorkerAddress& worker, std::chrono::milliseconds deadline,
                  std::function<void(Result<void>)> done);

}  // namespace kvern::engine
