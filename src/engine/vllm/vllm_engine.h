// A vLLM worker (or kvern's own, which speaks the same wire) as an Engine: prompts go out as token ids, answers come
// back as token ids over SSE, and the pipeline does the rest. One object is one worker; placement and retries are the
// fleet's.
//
// Threads: submit and cancel may be called anywhere. On one of the loops given they act at once, on that loop's own
// client; from elsewhere they are posted. A sink is called on the loop its request was submitted on, once per turn of
// the loop with everything that arrived in it, for all requests of the sink together.
//
// A worker is half trusted. It cannot redirect, cannot send more than the bounds, and its garbage ends its own stream
// only; its texts go to the log. A cancel closes the connection within the turn, which makes vLLM abort the request.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/vllm/probe.h"
#include "engine/vllm/worker_address.h"
#include "net/loop.h"

namespace kvern::engine {

/// How long each stage may take. The defaults suit a busy GPU worker: a first token may wait in its queue for minutes.
struct WorkerDeadlines {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_token{300'000};
  std::chrono::milliseconds between_tokens{60'000};
  std::chrono::milliseconds probe{2'000};           // for one question
  std::chrono::milliseconds probe_interval{2'000};  // between rounds
  /// A worker that neither passes a probe nor sends a byte of any stream for so long is taken for dead, and its streams
  /// end with kUnavailable. Kept exactly when it is no shorter than `probe` and `probe_interval` together: it takes a
  /// failed probe to know.
  std::chrono::milliseconds silent_max{10'000};
  bool operator==(const WorkerDeadlines&) const = default;
};

struct VllmOptions {
  std::string name;  // of the worker, for logs and Accepted
  WorkerAddress address;
  std::string model;  // the id the worker knows
  ModelInfo info;     // what is served
  WorkerFacts facts;  // as probed when this was made
  /// Whether a token ends an answer (GGUF's EOS, end of turn...); may be empty.
  std::function<bool(TokenId)> is_end;
  WorkerDeadlines deadlines;
  /// Requests under way at once; one more is kOverloaded.
  std::size_t active_max = 16'384;
};

/// What has been learned of a worker, by probes and from its answers.
struct WorkerReport {
  bool reachable = false;
  std::string trouble;  // of the last probe that failed; own words
  WorkerFacts facts;    // as last probed
  std::optional<bool> returns_token_ids;
  /// True once it was seen: vLLM tells cached tokens only with --enable-prompt-tokens-details, and only above 0.
  bool tells_cached_tokens = false;
  bool refuses_priority = false;
};

class VllmEngine : public Engine {
 public:
  /// Thread-safe.
  virtual WorkerReport report() const = 0;
};

/// Probing starts at once; the worker counts as healthy until a probe fails, since it has just been probed for `facts`.
/// `loops` (at least one) and `log` outlive the engine. Destroying it on one of the loops does not wait for the others:
/// what is left there ends soon after.
std::unique_ptr<VllmEngine> make_vllm_engine(VllmOptions options, const std::vector<net::Loop*>& loops, Log& log);

}  // namespace kvern::engine
