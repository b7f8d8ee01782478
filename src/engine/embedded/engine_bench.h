// The figures of `kvern bench engine`: what the embedded engine does on this machine with this model. About half a
// minute on two cores with the default model. Blocks; loads an engine of its own.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/embedded/embedded_engine.h"

namespace kvern::engine {

struct EngineBenchOptions {
  EmbeddedOptions engine;
  std::uint32_t prefill_tokens = 512;
  std::uint32_t decode_tokens = 64;  // per sequence
  std::uint32_t chat_tokens = 1024;  // of the first turn
  std::uint32_t turn_tokens = 24;    // what the second turn adds
};

struct EngineBenchFigures {
  double start_ms = 0;               // load of the model and context
  double first_token_ms = 0;         // from load to the first token of a 16-token prompt
  double prefill_tokens_per_s = 0;   // one prompt, nobody decoding
  double decode_tokens_per_s = 0;    // one sequence
  double decode_tokens_per_s_8 = 0;  // eight sequences, all together
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
