// The figures of `kvern bench engine`: what the embedded engine does on this machine with this model. About two minutes
// on two cores with the default model. Blocks; loads an engine of its own. scripts/bench runs the same cases on
// llama.cpp's own server.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/embedded/embedded_engine.h"

namespace kvern::engine {

struct EngineBenchOptions {
  EmbeddedOptions engine;
  std::uint32_t prefill_tokens = 512;
  std::uint32_t decode_tokens = 128;          // per sequence
  std::uint32_t single_runs = 5;              // of one sequence alone; the median counts
  std::uint32_t streams = 8;                  // at once
  std::uint32_t stream_tokens = 128;          // prompt of each
  std::uint32_t chat_tokens = 1024;           // of the first turn
  std::uint32_t turn_tokens = 24;             // what the second turn adds
  std::uint32_t parked_prefix_tokens = 1024;  // three quarters of the pool are filled with prefixes of this length
  std::uint32_t mixed_streams = 4;            // decode while prompts arrive
  std::uint32_t mixed_prompts = 3;
  std::uint32_t mixed_prompt_tokens = 768;
};

/// Speeds in one state of the pool, tokens a second.
struct EngineSpeeds {
  double prefill = 0;         // one prompt, nobody decoding
  double decode = 0;          // one sequence
  double decode_streams = 0;  // several sequences together, while all decode
  double streams_ms = 0;      // their prompts and answers, from the first submit to the last end
};

struct EngineBenchFigures {
  double start_ms = 0;        // load of the model and context
  double first_token_ms = 0;  // from load to the first token of a 16-token prompt
  EngineSpeeds empty;         // nothing cached before
  EngineSpeeds parked;        // three quarters of the pool hold prefixes nobody uses
  double parked_share = 0;    // of the pool, when that began

  // Gaps between the tokens of streams that decode while long prompts arrive, against a step of the mixed budget.
  double stall_p50_ms = 0;
  double stall_p99_ms = 0;
  double stall_max_ms = 0;
  std::uint32_t budget_tokens = 0;
  double budget_step_ms = 0;  // median, and the slowest
  double budget_step_max_ms = 0;

  std::uint64_t turn1_computed_tokens = 0;
  std::uint64_t turn2_computed_tokens = 0;
  double turn1_ms = 0;  // to the first token
  double turn2_ms = 0;
  double turn2_cost_ratio = 0;  // computed tokens, second turn to first
  std::uint64_t cell_bytes = 0;
  std::uint32_t cells = 0;
};

Result<EngineBenchFigures> run_engine_bench(const EngineBenchOptions& options);

}  // namespace kvern::engine
