// The engine inside kvern: llama.cpp as a library on one thread, with continuous batching and a prefix cache by blocks.
// Any GGUF file runs; models whose memory cannot be shared by blocks (hybrid, recurrent, sliding window) run without
// reuse and say so in `warnings()`. Start-up costs the load of the model (the file is mapped); a step costs one batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kv/kv_event.h"

namespace kvern::engine {

struct EmbeddedOptions {
  std::string model_path;
  std::string name;                   // served id; empty: the file's name without .gguf
  std::uint32_t ctx = 0;              // longest request; 0: the trained length
  std::uint32_t kv_cache_tokens = 0;  // cells shared by all; 0: 4 x ctx, at most half of the free memory
  std::uint32_t threads = 0;          // 0: all cores this process may use
  std::int32_t gpu_layers = 0;        // -1: all
  /// Prompt tokens of a step while nobody decodes, and all tokens of a step while somebody does. 0: 128 and 64 on a
  /// CPU, four times that with GPU layers. Two cores do about 200 tokens a second of the default model, so these keep a
  /// step at half a second (what a cancel waits for) and the gap in a stream at a third; CPU time a token: 9.2 ms at 32
  /// tokens, 8.2 at 64, 7.8 at 128, 8.0 at 256.
  std::uint32_t batch_tokens = 0;
  std::uint32_t mixed_batch_tokens = 0;
  std::uint32_t running_max = 64;    // requests in the batch at once; at most 256 (llama.cpp's sequence ids)
  std::uint32_t waiting_max = 1024;  // beyond it submit answers kOverloaded
  bool prefix_cache = true;
  /// Told what is cached and what no longer is, on the engine's thread once a step, before the step's tokens leave.
  /// May be empty.
  std::shared_ptr<kv::KvEventSink> kv_events;
  std::size_t parked_bytes = std::size_t{256} << 20U;  // host memory for the state of preempted requests; 0: none
  /// Gets llama.cpp's errors, a line each, on whatever thread they happen. May be empty.
  std::function<void(const std::string&)> on_log;
};

/// Thread-safe. Destruction stops the thread at the end of its step and fails what is left with kUnavailable.
class EmbeddedEngine : public Engine {
 public:
  /// Loads the model and starts the thread. The error's message is for the operator at start-up (it names the file),
  /// never for a client.
  static Result<std::unique_ptr<EmbeddedEngine>> load(const EmbeddedOptions& options);

  /// What the operator should know: a context beyond the trained length, no block reuse, a pool cut to fit memory.
  virtual const std::vector<std::string>& warnings() const = 0;
  /// True when finished blocks are kept and shared between requests.
  virtual bool reuses_blocks() const = 0;
  /// Length the model was trained for, in tokens.
  virtual std::uint32_t trained_context_tokens() const = 0;
  /// Bytes of one cell of the pool (keys and values of all layers).
  virtual std::uint64_t cell_bytes() const = 0;
  /// Tokens of a step while somebody decodes: prompts share what decodes leave of it.
  virtual std::uint32_t mixed_batch_tokens() const = 0;
  /// Blocks until the engine has nothing to run or wait for. For tests and benchmarks.
  virtual void wait_idle() = 0;
  /// Drops every cached block and says whether llama.cpp then counts no cell in use. Only when idle; for tests.
  virtual bool verify_empty_after_clearing() = 0;
};

}  // namespace kvern::engine
