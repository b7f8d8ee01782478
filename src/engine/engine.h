// The Engine port: whatever turns prompt tokens into answer tokens. Adapters live in a folder each (embedded, scripted,
// later vllm, sglang...); the pipeline knows only this. An engine speaks token ids and raw text, never a dialect.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strong_id.h"
#include "base/token.h"
#include "ir/request.h"

namespace kvern::engine {

/// One generation. `max_tokens` is resolved (>= 1) and prompt + max_tokens <= the context; token ids are in range.
struct GenerateRequest {
  RequestId id;
  Tokens prompt;
  std::uint32_t max_tokens = 1;
  std::uint32_t min_tokens = 0;
  Tokens stop_token_ids;
  bool ignore_eos = false;
  ir::Sampling sampling;
  std::int32_t priority = 0;  // higher is sooner
  /// Report the log probability of every token, and of this many of the likeliest at its place. Absent: none.
  std::optional<std::uint32_t> logprobs;
  /// Who may share cached blocks with this request: equal strings only (tenant and cache salt). Empty: everybody's.
  std::string cache_namespace;
  /// An administrator's choice of the worker by its name, and of one of its data-parallel ranks. Empty: any. Where
  /// there is one engine only, there is nothing to choose.
  std::string worker;
  std::optional<std::uint32_t> worker_rank;
  /// The rendered prompt as text; only the scripted engine reads it.
  std::string prompt_text;
};

/// The engine began on the prompt. Sent once, before any Output.
struct Accepted {
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached_tokens;
  std::string worker;  // who runs it, where there are several
};
/// How likely a token was: natural logarithms of the model's own distribution, before temperature, penalties and bias.
struct TokenLogprob {
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // the likeliest tokens at its place, best first
};
/// New tokens in order. `text` is set only by engines that answer in text instead of ids (scripted `chunks`).
struct Output {
  StepTokens tokens;
  std::string text;
  std::vector<TokenLogprob> logprobs;  // one for each of `tokens`, or empty
};
enum class StopCause : std::uint8_t { kEos, kStopToken, kLength };
/// The generation is complete; counts are the engine's own. The token that stopped it is in no Output, but counted.
struct Finished {
  StopCause cause = StopCause::kEos;
  std::uint32_t completion_tokens = 0;
  /// For engines that tell only at the end; overrides what Accepted said.
  std::optional<std::uint32_t> cached_tokens = {};
};
/// The generation broke off; nothing follows.
struct Failed {
  Error error;
};

struct EngineEvent {
  RequestId id;
  std::variant<Accepted, Output, Finished, Failed> body;
};

/// Receives an engine's events. Called on the engine's own thread, one batch per engine step (all requests of this sink
/// together), so it must only hand them on and return.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_events(std::vector<EngineEvent> events) = 0;
};

/// What the model is, as far as the layers above need it.
struct ModelInfo {
  std::string name;  // served id
  std::uint32_t context_tokens = 0;
  std::uint32_t vocab_size = 0;
};

struct EngineStats {
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint64_t prompt_tokens = 0;    // since start, cached ones included
  std::uint64_t cached_tokens = 0;    // of those, taken from the prefix cache
  std::uint64_t computed_tokens = 0;  // prompt tokens run through the model (recomputation after preemption included)
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t steps = 0;
  std::uint32_t cache_blocks = 0;       // blocks held in the prefix cache
  std::uint32_t cache_blocks_used = 0;  // of those, under a running request
  std::uint32_t cells_total = 0;
  std::uint32_t cells_used = 0;
  std::uint32_t sequences_used = 0;
  std::uint64_t evicted_blocks = 0;
};

/// Thread-safe; outlives every request given to it (destruction fails what is left with kUnavailable).
class Engine {
 public:
  virtual ~Engine() = default;
  virtual const ModelInfo& model() const = 0;
  /// Queues a request. kOverloaded when the waiting queue is full; then no event follows. Otherwise exactly one
  /// Finished or Failed comes, unless it is cancelled first.
  virtual Result<void> submit(GenerateRequest request, std::shared_ptr<EventSink> sink) = 0;
  /// Frees everything of the request within one step. No effect on an unknown or ended one. Events under way may still
  /// arrive; none is made after the step.
  virtual void cancel(RequestId id) = 0;
  virtual EngineStats stats() const = 0;
  /// The name of the worker that would be given `request` now; empty where there are none to choose from, or none can
  /// take it. Books nothing.
  virtual std::string would_place(const GenerateRequest&) { return {}; }
  /// True while steps are being made or nothing waits: what /ready answers.
  virtual bool healthy() const = 0;
};

}  // namespace kvern::engine
