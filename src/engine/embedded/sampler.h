// Draws tokens from a model's logits as a request wishes. One pass over the vocabulary and partial selection, never a
// sort of all of it; greedy (temperature 0) without penalties or bias is one scan.
//
// The order of things is vLLM's: log probabilities of the model's own distribution; logit_bias; penalties (repetition
// over prompt and answer, presence and frequency over the answer only); tokens that may not come now; temperature; then
// min_p, top_k and top_p, each over what the one before left.
//
// A seed repeats an answer, whatever else runs: the random numbers are a pure function of seed, place in the answer and
// token (sampler.cc says how). Logits that are no numbers never crash: NaN counts as impossible, +infinity as the
// largest float, and if nothing is possible the first token that may come is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/embedded/backend.h"
#include "engine/engine.h"

namespace kvern::engine {

struct Candidate {
  float logit = 0;
  TokenId token = 0;
  bool operator==(const Candidate&) const = default;
};

/// Room that all samplers of one thread share; a vocabulary's worth.
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<Candidate> candidates;
};

/// The `count` largest of `logits`, best first, equal ones by token; those at -infinity or NaN are not among them.
/// O(logits) for few, and O(logits + count log count) for many.
void likeliest(std::span<const float> logits, std::size_t count, std::vector<Candidate>& out);

/// Of one request. One thread at a time.
class Sampler {
 public:
  /// `end_tokens` are the vocabulary's end-of-generation tokens. Borrows nothing after the call.
  Sampler(const GenerateRequest& request, std::span<const TokenId> prompt, std::span<const TokenId> end_tokens,
          std::uint32_t vocab_size);

  /// The next token of the answer, from `vocab_size` logits. Without `may_stop`, tokens that end the answer do not
  /// come. The token counts as generated.
  Drawn draw(std::span<const float> logits, bool may_stop, SamplerScratch& scratch);

 private:
  struct Seen {
    bool in_prompt = false;
    std::uint32_t drawn = 0;
  };
  struct Race;

  bool masked(TokenId token, bool may_stop) const;
  bool edits_logits(bool may_stop) const;
  TokenId greedy(std::span<const float> logits, bool may_stop) const;
  TokenId choose(std::span<const float> raw, bool may_stop, SamplerScratch& scratch) const;
  TokenLogprob logprob(TokenId token, SamplerScratch& scratch) const;
  void edit(bool may_stop, std::span<float> logits) const;
  TokenId draw_from_all(std::span<const float> logits, Candidate best) const;
  TokenId draw_from_few(std::span<const float> logits, Candidate best, std::vector<Candidate>& candidates) const;
  void cut_to_top_p(std::span<const float> logits, Candidate best, std::vector<Candidate>& candidates) const;
  double floor_below(Candidate best) const;

  const std::uint32_t vocab_size_;
  const ir::Sampling sampling_;
  const std::uint64_t seed_;
  const std::optional<std::uint32_t> logprobs_;
  const bool greedy_;
  const bool penalised_;
  std::vector<TokenId> never_;              // ascending; masked always
  std::vector<TokenId> not_yet_;            // ascending; masked until the answer may stop
  std::unordered_map<TokenId, Seen> seen_;  // kept when there are penalties
  std::uint64_t place_ = 0;                 // tokens drawn so far
};

}  // namespace kvern::engine
