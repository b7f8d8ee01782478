#include "engine/embedded/engine_bench.h"

#include <gtest/gtest.h>

namespace kvern::engine {
namespace {

TEST(EngineBench, FillsInEveryFigure) {
  EngineBenchOptions options{
      .engine = {.model_path = KVERN_CACHE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf", .ctx = 512},
      .prefill_tokens = 32,
      .decode_tokens = 4,
      .chat_tokens = 64,
      .turn_tokens = 8};
  const auto figures = run_engine_bench(options);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_GT(figures->start_ms, 0);
  EXPECT_GT(figures->first_token_ms, figures->start_ms);
  EXPECT_GT(figures->prefill_tokens_per_s, 0);
  EXPECT_GT(figures->decode_tokens_per_s, 0);
  EXPECT_GT(figures->decode_tokens_per_s_8, 0);
  EXPECT_EQ(figures->turn1_computed_tokens, 64U);
  EXPECT_LT(figures->turn2_computed_tokens, 64U);
  EXPECT_GT(figures->turn2_ms, 0);
  EXPECT_EQ(figures->cells, 2048U);
}

}  // namespace
}  // namespace kvern::engine
