// The Backend on llama.cpp: one model, one context, one unified KV cache whose cells are held by index (patch 0001 of
// third_party/llama, docs/decisions/0002). Everything after load() belongs to one thread, except stop().
#pragma once

#include <ggml-cpu.h>
#include <llama.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/embedded/backend.h"
#include "engine/embedded/sampler.h"

namespace kvern::engine {

struct LlamaOptions {
  std::string model_path;
  std::uint32_t context_tokens = 0;  // 0: the trained length
  std::uint32_t cells = 0;           // 0: 4 x context, at most half of the free memory
  std::uint32_t threads = 0;         // 0: all
  std::int32_t gpu_layers = 0;
  std::uint32_t batch_tokens = 512;
  std::uint32_t sequences = 64;
  std::function<void(const std::string&)> on_log;
};

class LlamaBackend final : public Backend {
 public:
  static Result<std::unique_ptr<LlamaBackend>> load(const LlamaOptions& options);
  ~LlamaBackend() override;

  std::uint32_t context_tokens() const { return context_tokens_; }
  std::uint32_t trained_tokens() const { return trained_tokens_; }
  std::uint32_t cells_total() const { return cells_total_; }
  std::uint32_t sequences() const { return sequences_; }
  std::uint32_t vocab_size() const { return vocab_size_; }
  std::uint64_t cell_bytes() const { return cell_bytes_; }
  bool can_hold() const { return can_hold_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Logits after batch token `index` of the last decode; `vocab_size()` of them, until the next.
  std::span<const float> logits(std::uint32_t index) const;
  /// Makes the decode under way, and all later ones, end with kAborted soon. Any thread.
  void stop();

  DecodeStatus decode(std::span<const BatchToken> batch) override;
  std::unique_ptr<TokenSampler> make_sampler(const GenerateRequest& request, std::span<const TokenId> prompt) override;
  bool ends_generation(TokenId token) const override;
  bool remove(SequenceId sequence, std::int32_t from, std::int32_t to) override;
  void cells(SequenceId sequence, std::int32_t from, std::int32_t to, std::vector<kv::CellId>& out) const override;
  void hold(std::span<const kv::CellId> cells) override;
  void unhold(std::span<const kv::CellId> cells) override;
  void attach(SequenceId sequence, std::span<const kv::CellId> cells) override;
  bool save(SequenceId sequence, std::int32_t from, std::size_t bytes_max, std::vector<std::byte>& state) override;
  bool restore(SequenceId sequence, std::span<const std::byte> state) override;
  std::optional<std::uint32_t> cells_used() const override;

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
    void operator()(ggml_threadpool* threads) const { ggml_threadpool_free(threads); }
  };
  LlamaBackend() = default;
  Result<void> open(const LlamaOptions& options);
  Result<void> try_out(const std::string& path);
  void size_pool(const LlamaOptions& options);

  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<ggml_threadpool, Free> threads_;  // outlives the context
  std::unique_ptr<llama_context, Free> context_;
  llama_memory_t memory_ = nullptr;
  llama_batch batch_{};
  std::vector<TokenId> end_tokens_;  // ascending
  SamplerScratch scratch_;           // of all samplers; they belong to the same thread
  std::vector<std::string> warnings_;
  std::uint32_t context_tokens_ = 0;
  std::uint32_t trained_tokens_ = 0;
  std::uint32_t cells_total_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint32_t batch_tokens_ = 0;
  std::uint32_t vocab_size_ = 0;
  std::uint64_t cell_bytes_ = 0;
  SequenceId spare_sequence_ = -1;  // no request's; -1: none
  bool can_hold_ = false;
  std::atomic<bool> stopping_{false};
};

}  // namespace kvern::engine
