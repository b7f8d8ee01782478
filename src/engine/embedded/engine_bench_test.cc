#include "engine/embedded/engine_bench.h"

#include <gtest/gtest.h>

namespace kvern::engine {
namespace {

TEST(EngineBench, FillsInEveryFigure) {
  EngineBenchOptions options{.engine = {.model_path = KVERN_CACHE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                        .ctx = 256,
                                        .kv_cache_tokens = 768},
                             .prefill_tokens = 32,
                             .decode_tokens = 4,
                             .streams = 3,
                             .stream_tokens = 16,
                             .chat_tokens = 64,
                             .turn_tokens = 8,
                             .parked_prefix_tokens = 200,
                             .mixed_streams = 2,
                             .mixed_prompts = 1,
                             .mixed_prompt_tokens = 130};
  const auto figures = run_engine_bench(options);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_GT(figures->start_ms, 0);
  EXPECT_GT(figures->first_token_ms, figures->start_ms);
  for (const EngineSpeeds& speeds : {figures->empty, figures->parked}) {
    EXPECT_GT(speeds.prefill, 0);
    EXPECT_GT(speeds.decode, 0);
    EXPECT_GT(speeds.decode_streams, 0);
  }
  EXPECT_GE(figures->parked_share, 0.75);
  EXPECT_EQ(figures->budget_tokens, 64U);
  EXPECT_GT(figures->budget_step_ms, 0);
  EXPECT_GT(figures->stall_p50_ms, 0);
  EXPECT_GE(figures->stall_p99_ms, figures->stall_p50_ms);
  EXPECT_GE(figures->stall_max_ms, figures->stall_p99_ms);
  EXPECT_EQ(figures->turn1_computed_tokens, 64U);
  EXPECT_LT(figures->turn2_computed_tokens, 64U);
  EXPECT_GT(figures->turn2_ms, 0);
  EXPECT_EQ(figures->cells, 768U);
}

}  // namespace
}  // namespace kvern::engine
