// A model whose memory cannot be shared by blocks: a tiny Mamba with weights from a seed, written as a GGUF file and
// run by the real llama.cpp. It must answer as any other, without reuse, and say so.
#include <ggml.h>
#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "base/rng.h"
#include "engine/embedded/embedded_engine.h"
#include "engine/embedded/engine_harness.h"

namespace kvern::engine {
namespace {

using harness::Answer;
using harness::Collector;

constexpr std::uint32_t kEmbedding = 64;
constexpr std::uint32_t kInner = 2 * kEmbedding;  // llama.cpp asks for this ratio
constexpr std::uint32_t kState = 16;
constexpr std::uint32_t kRank = 4;
constexpr std::uint32_t kConvolution = 4;
constexpr std::uint32_t kLayers = 2;
constexpr std::uint32_t kVocabulary = 128;

class MambaFile {
 public:
  explicit MambaFile(std::string path) : path_(std::move(path)) {
    const auto u32 = [this](const char* key, std::uint32_t value) { gguf_set_val_u32(gguf_.get(), key, value); };
    gguf_set_val_str(gguf_.get(), "general.architecture", "mamba");
    gguf_set_val_str(gguf_.get(), "tokenizer.ggml.model", "no_vocab");
    gguf_set_val_f32(gguf_.get(), "mamba.attention.layer_norm_rms_epsilon", 1e-5F);
    u32("mamba.vocab_size", kVocabulary);
    u32("mamba.context_length", 256);
    u32("mamba.embedding_length", kEmbedding);
    u32("mamba.feed_forward_length", 0);
    u32("mamba.attention.head_count", 0);
    u32("mamba.block_count", kLayers);
    u32("mamba.ssm.conv_kernel", kConvolution);
    u32("mamba.ssm.inner_size", kInner);
    u32("mamba.ssm.state_size", kState);
    u32("mamba.ssm.time_step_rank", kRank);
    add("token_embd.weight", kEmbedding, kVocabulary, 1);
    add("output_norm.weight", kEmbedding, 0, 0, 1);
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      add(layer + "attn_norm.weight", kEmbedding, 0, 0, 1);
      add(layer + "ssm_in.weight", kEmbedding, 2 * kInner, 0.2F);
      add(layer + "ssm_conv1d.weight", kConvolution, kInner, 0.5F);
      add(layer + "ssm_conv1d.bias", kInner, 0, 0.1F);
      add(layer + "ssm_x.weight", kInner, kRank + 2 * kState, 0.2F);
      add(layer + "ssm_dt.weight", kRank, kInner, 0.2F);
      add(layer + "ssm_dt.bias", kInner, 0, 0.1F);
      add(layer + "ssm_a", kState, kInner, 0.5F, -1);  // negative: the state fades
      add(layer + "ssm_d", kInner, 0, 0.1F, 1);
      add(layer + "ssm_out.weight", kInner, kEmbedding, 0.2F);
    }
    KV_CHECK(gguf_write_to_file(gguf_.get(), path_.c_str(), false));
  }
  ~MambaFile() { std::remove(path_.c_str()); }
  MambaFile(const MambaFile&) = delete;
  MambaFile& operator=(const MambaFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  struct Free {
    void operator()(gguf_context* gguf) const { gguf_free(gguf); }
    void operator()(ggml_context* ggml) const { ggml_free(ggml); }
  };

  /// A tensor of `columns` (0: a vector) with values `middle` ± `spread`.
  void add(const std::string& name, std::int64_t rows, std::int64_t columns, float spread, float middle = 0) {
    ggml_tensor* tensor = columns == 0 ? ggml_new_tensor_1d(ggml_.get(), GGML_TYPE_F32, rows)
                                       : ggml_new_tensor_2d(ggml_.get(), GGML_TYPE_F32, rows, columns);
    ggml_set_name(tensor, name.c_str());
    auto* values = static_cast<float*>(tensor->data);
    for (std::int64_t i = 0; i < ggml_nelements(tensor); ++i) {
      values[i] = middle + spread * static_cast<float>(2 * rng_.uniform() - 1);
    }
    gguf_add_tensor(gguf_.get(), tensor);
  }

  const std::string path_;
  Rng rng_{11};
  std::unique_ptr<gguf_context, Free> gguf_{gguf_init_empty()};
  std::unique_ptr<ggml_context, Free> ggml_{
      ggml_init({.mem_size = 4U << 20U, .mem_buffer = nullptr, .no_alloc = false})};
};

class RecurrentModelTest : public testing::Test {
 protected:
  RecurrentModelTest() : file_(testing::TempDir() + "kvern_tiny_mamba.gguf"), sink_(std::make_shared<Collector>()) {
    open(64);
  }
  void open(std::uint32_t running_max) {
    auto loaded = EmbeddedEngine::load(
        {.model_path = file_.path(), .kv_cache_tokens = 1024, .threads = 1, .running_max = running_max});
    KV_CHECK(loaded.ok());
    engine_ = std::move(*loaded);
  }
  RequestId submit(TokenId kind, std::size_t length, std::uint32_t max_tokens, std::int32_t priority = 0) {
    GenerateRequest request;
    request.priority = priority;
    request.id = RequestId{next_id_++};
    for (std::size_t i = 0; i < length; ++i) {
      request.prompt.push_back(static_cast<TokenId>((static_cast<std::size_t>(kind) * 31 + i * 7) % kVocabulary));
    }
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    const RequestId id = request.id;
    EXPECT_TRUE(engine_->submit(std::move(request), sink_).ok());
    return id;
  }

  MambaFile file_;
  std::shared_ptr<Collector> sink_;
  std::unique_ptr<EmbeddedEngine> engine_;
  std::uint64_t next_id_ = 1;
};

TEST_F(RecurrentModelTest, SaysThatBlocksAreNotReused) {
  EXPECT_FALSE(engine_->reuses_blocks());
  EXPECT_THAT(engine_->warnings(), testing::Contains(testing::HasSubstr("without reuse")));
}

TEST_F(RecurrentModelTest, AnswersTheSameAloneAndBesideOthers) {
  const Answer alone = sink_->wait(submit(1, 40, 12));
  ASSERT_TRUE(alone.finished);
  EXPECT_EQ(alone.tokens.size(), 12U);
  EXPECT_EQ(alone.accepted->cached_tokens, std::nullopt) << "nothing is looked up, so nothing is claimed";
  std::vector<RequestId> ids;
  for (TokenId kind = 1; kind <= 5; ++kind) ids.push_back(submit(kind, 40, 12));
  EXPECT_EQ(sink_->wait(ids.front()).tokens, alone.tokens);
  for (const RequestId id : ids) EXPECT_EQ(sink_->wait(id).tokens.size(), 12U);
  engine_->wait_idle();
  EXPECT_EQ(engine_->stats().sequences_used, 0U);
}

TEST_F(RecurrentModelTest, AnInterruptedAnswerIsParkedAndGoesOn) {
  open(1);
  const Answer alone = sink_->wait(submit(1, 40, 150));
  engine_->wait_idle();
  const std::uint64_t computed = engine_->stats().computed_tokens;
  EXPECT_EQ(computed, 40U);
  const RequestId id = submit(1, 40, 150);
  sink_->wait_tokens(id, 5);
  sink_->wait(submit(2, 40, 5, 1));
  EXPECT_EQ(sink_->wait(id).tokens, alone.tokens);
  engine_->wait_idle();
  EXPECT_EQ(engine_->stats().preemptions, 1U);
  EXPECT_EQ(engine_->stats().computed_tokens, computed + 80) << "two prompts, nothing twice";
}

TEST_F(RecurrentModelTest, CancelledRequestsLeaveNothingBehind) {
  const RequestId gone = submit(2, 40, 200);
  sink_->wait_tokens(gone, 3);
  engine_->cancel(gone);
  const Answer after = sink_->wait(submit(1, 40, 12));
  EXPECT_EQ(after.tokens.size(), 12U);
  engine_->wait_idle();
  EXPECT_EQ(engine_->stats().sequences_used, 0U);
  EXPECT_EQ(engine_->stats().running, 0U);
}

}  // namespace
}  // namespace kvern::engine
