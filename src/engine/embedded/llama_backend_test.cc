// What the patches of third_party/llama promise, on the default model.
#include "engine/embedded/llama_backend.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <vector>

namespace kvern::engine {
namespace {

class LlamaBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = LlamaBackend::load({.model_path = KVERN_CACHE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                      .context_tokens = 512,
                                      .cells = 768,
                                      .threads = 2,
                                      .gpu_layers = 0,
                                      .batch_tokens = 64,
                                      .sequences = 8,
                                      .on_log = {}});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    backend_ = std::move(*loaded);
  }

  static Tokens numbers(std::size_t count, TokenId kind) {
    Tokens tokens(count);
    for (std::size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<TokenId>(1000 + (static_cast<std::size_t>(kind) * 131 + i * 37) % 40000);
    }
    return tokens;
  }
  /// Runs tokens [from, to) of a sequence in batches of at most 32, and returns the logits after the last.
  std::vector<float> run(SequenceId sequence, const Tokens& tokens, std::size_t from, std::size_t to) {
    while (from < to) {
      std::vector<BatchToken> batch;
      for (; from < to && batch.size() < 32; ++from) {
        batch.push_back({tokens[from], static_cast<std::int32_t>(from), sequence, from + 1 == to});
      }
      EXPECT_EQ(backend_->decode(batch), DecodeStatus::kOk);
      if (from == to) {
        const auto logits = backend_->logits(static_cast<std::uint32_t>(batch.size() - 1));
        return {logits.begin(), logits.end()};
      }
    }
    return {};
  }
  std::vector<float> run(SequenceId sequence, const Tokens& tokens) { return run(sequence, tokens, 0, tokens.size()); }

  std::unique_ptr<LlamaBackend> backend_;
};

TEST_F(LlamaBackendTest, WhereCellsAreChangesNothing) {
  const Tokens prompt = numbers(100, 1);
  const auto clean = run(0, prompt);
  backend_->remove(0, 0, -1);
  // Scatter the free cells: fill the pool with short runs, keep every other one, and hold some without a sequence.
  for (SequenceId sequence = 1; sequence < 8; ++sequence) run(sequence, numbers(96, 10 + sequence));
  for (SequenceId sequence = 1; sequence < 8; ++sequence) {
    for (std::int32_t from = 0; from < 96; from += 16) {
      std::vector<kv::CellId> cells;
      backend_->cells(sequence, from, from + 8, cells);
      backend_->hold(cells);
    }
    if (sequence < 6) backend_->remove(sequence, 0, -1);
  }
  const auto scattered = run(0, prompt);
  EXPECT_EQ(clean, scattered);  // bit by bit
  std::vector<kv::CellId> cells;
  backend_->cells(0, 0, 100, cells);
  ASSERT_EQ(cells.size(), 100U);
  EXPECT_GT(*std::ranges::max_element(cells) - *std::ranges::min_element(cells), 110U);
  // One token at a time takes another way through the attention.
  Tokens longer = prompt;
  for (TokenId next = 500; next < 505; ++next) longer.push_back(next);
  const auto later = run(0, longer, 100, 105);
  backend_->remove(0, 0, -1);
  for (SequenceId sequence = 6; sequence < 8; ++sequence)
    backend_->remove(sequence, 0, -1);  // other cells are free now
  EXPECT_EQ(run(0, longer, 0, 100), clean);
  EXPECT_EQ(run(0, longer, 100, 105), later);
}

TEST_F(LlamaBackendTest, OthersInTheBatchDoNotShowInAttention) {
  // Sequences of quite different lengths, each one token: logits stay near what each gets alone. (Matrix products of
  // another shape round differently, so not equal.)
  std::vector<std::vector<float>> alone;
  std::vector<Tokens> prompts;
  for (SequenceId sequence = 0; sequence < 6; ++sequence) {
    prompts.push_back(numbers(10 + 30 * static_cast<std::size_t>(sequence), sequence));
    const Tokens& prompt = prompts.back();
    run(sequence, prompt, 0, prompt.size() - 1);
    alone.push_back(run(sequence, prompt, prompt.size() - 1, prompt.size()));
    backend_->remove(sequence, static_cast<std::int32_t>(prompt.size() - 1), -1);
  }
  std::vector<BatchToken> batch;
  for (SequenceId sequence = 0; sequence < 6; ++sequence) {
    const Tokens& prompt = prompts[static_cast<std::size_t>(sequence)];
    batch.push_back({prompt.back(), static_cast<std::int32_t>(prompt.size() - 1), sequence, true});
  }
  // And a prompt long enough for a tile.
  const Tokens other = numbers(40, 99);
  for (std::size_t i = 0; i < other.size(); ++i) {
    batch.push_back({other[i], static_cast<std::int32_t>(i), 7, i + 1 == other.size()});
  }
  ASSERT_EQ(backend_->decode(batch), DecodeStatus::kOk);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto together = backend_->logits(static_cast<std::uint32_t>(i));
    float distance = 0;
    for (std::size_t token = 0; token < together.size(); ++token) {
      distance = std::max(distance, std::abs(together[token] - alone[i][token]));
    }
    EXPECT_LT(distance, 2.0F) << i;
    EXPECT_LT(std::abs(together[std::size_t(std::ranges::max_element(alone[i]) - alone[i].begin())] -
                       *std::ranges::max_element(alone[i])),
              1.0F)
        << i;
  }
}

/// The figures of docs/decisions/0007.
TEST_F(LlamaBackendTest, ParkingAgainstComputingAgain) {
  const auto ms_of = [](const auto& work) {
    const auto from = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
  };
  const Tokens prompt = numbers(240, 5);
  for (const std::size_t from : {std::size_t{225}, std::size_t{0}}) {
    const auto first = static_cast<std::int32_t>(from);
    run(0, prompt, 0, 240);
    std::vector<std::byte> state;
    const double save = ms_of([&] { ASSERT_TRUE(backend_->save(0, first, 1U << 26U, state)); });
    backend_->remove(0, first, -1);
    const double recompute = ms_of([&] { run(0, prompt, from, 240); });
    backend_->remove(0, first, -1);
    const double restore = ms_of([&] { ASSERT_TRUE(backend_->restore(0, state)); });
    std::cout << fmt::format("{} tokens, {} KB: save {:.2f} ms, restore {:.2f} ms, compute again {:.1f} ms\n",
                             240 - from, state.size() / 1024, save, restore, recompute);
    EXPECT_EQ(backend_->cells_used(), 240U);
    backend_->remove(0, 0, -1);
  }
}

TEST_F(LlamaBackendTest, ASavedPartComesBackAsItWas) {
  const Tokens prompt = numbers(90, 5);
  run(0, prompt, 0, 80);
  std::vector<kv::CellId> cells;
  backend_->cells(0, 0, 64, cells);
  backend_->hold(cells);
  std::vector<std::byte> state;
  EXPECT_FALSE(backend_->save(0, 64, 1000, state)) << "more than a thousand bytes";
  EXPECT_TRUE(state.empty());
  ASSERT_TRUE(backend_->save(0, 64, 1U << 24U, state));
  EXPECT_GT(state.size(), 16 * backend_->cell_bytes());
  EXPECT_LT(state.size(), 17 * backend_->cell_bytes());
  const auto want = run(0, prompt, 80, 90);
  backend_->remove(0, 0, -1);
  EXPECT_EQ(backend_->cells_used(), 64U);

  run(3, numbers(30, 8));  // takes the cells that were free
  backend_->attach(0, cells);
  ASSERT_TRUE(backend_->restore(0, state));
  EXPECT_EQ(backend_->cells_used(), 110U);
  EXPECT_EQ(run(0, prompt, 80, 90), want);

  std::vector<std::byte> broken(state.begin(), state.begin() + 100);
  EXPECT_FALSE(backend_->restore(5, broken));
  EXPECT_EQ(backend_->cells_used(), 120U);
}

}  // namespace
}  // namespace kvern::engine
