// Draws tokens from a model's logits as a request wishes: penalties, temperature, top_k, top_p, min_p, seed. Greedy at
// temperature 0, and then as fast as a scan. Semantics of the field: presence and frequency penalties count generated
// tokens only, the repetition penalty the prompt as well; temperature comes before the cuts.
#pragma once

#include <llama.h>

#include <memory>
#include <span>
#include <vector>

#include "engine/embedded/backend.h"

namespace kvern::engine {

/// Of one request; the engine thread only. `context` outlives it.
class LlamaSampler final : public TokenSampler {
 public:
  /// `end_tokens` (ascending, borrowed for its life) are the vocabulary's end-of-generation tokens.
  LlamaSampler(llama_context* context, const GenerateRequest& request, std::span<const TokenId> prompt,
               std::span<const TokenId> end_tokens);
  TokenId sample(std::uint32_t index, bool may_stop) override;

 private:
  struct Free {
    void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
  };
  using SamplerPtr = std::unique_ptr<llama_sampler, Free>;

  TokenId greedy(std::uint32_t index, bool may_stop) const;

  llama_context* const context_;
  const std::int32_t vocab_size_;
  std::vector<TokenId> never_;    // masked always
  std::vector<TokenId> not_yet_;  // masked until the answer may stop
  std::vector<SamplerPtr> penalties_;
  SamplerPtr chain_;  // null: greedy
  std::vector<llama_token_data> candidates_;
};

}  // namespace kvern::engine
