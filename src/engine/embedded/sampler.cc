#include "engine/embedded/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kvern::engine {
namespace {

/// llama.cpp takes 32 bits, one value of which means "draw one".
std::uint32_t fold_seed(std::uint64_t seed) {
  const auto folded = static_cast<std::uint32_t>(seed ^ (seed >> 32U));
  return folded == LLAMA_DEFAULT_SEED ? folded - 1 : folded;
}

}  // namespace

LlamaSampler::LlamaSampler(llama_context* context, const GenerateRequest& request, std::span<const TokenId> prompt,
                           std::span<const TokenId> end_tokens)
    : context_(context), vocab_size_(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)))) {
  const auto& sampling = request.sampling;
  // A stop token asked for by name stops the answer even if it is an end token and those are ignored.
  const auto named = [&](TokenId token) {
    return std::ranges::find(request.stop_token_ids, token) != request.stop_token_ids.end();
  };
  for (const TokenId token : end_tokens) {
    if (request.ignore_eos && !named(token)) {
      never_.push_back(token);
    } else if (request.min_tokens > 0) {
      not_yet_.push_back(token);
    }
  }
  if (request.min_tokens > 0) {
    for (const TokenId token : request.stop_token_ids) {
      if (token >= 0 && token < vocab_size_) not_yet_.push_back(token);
    }
  }

  const auto whole = static_cast<std::int32_t>(
      std::min<std::size_t>(prompt.size() + request.max_tokens, std::numeric_limits<std::int32_t>::max()));
  if (sampling.presence_penalty != 0 || sampling.frequency_penalty != 0) {
    penalties_.emplace_back(llama_sampler_init_penalties(vocab_size_, whole, 1.0F,
                                                         static_cast<float>(sampling.frequency_penalty),
                                                         static_cast<float>(sampling.presence_penalty)));
  }
  if (sampling.repetition_penalty != 1.0) {
    penalties_.emplace_back(
        llama_sampler_init_penalties(vocab_size_, whole, static_cast<float>(sampling.repetition_penalty), 0.0F, 0.0F));
    for (const TokenId token : prompt) llama_sampler_accept(penalties_.back().get(), token);
  }

  // Below this the division by it overflows a float, and the draw is greedy anyway.
  constexpr double kTemperatureMin = 1e-5;
  if (sampling.temperature < kTemperatureMin) return;
  chain_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [this](llama_sampler* sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
  // top_k looks at ranks only, so it may come before the temperature, where it makes the rest cheap.
  if (sampling.top_k > 0) add(llama_sampler_init_top_k(sampling.top_k));
  add(llama_sampler_init_temp(static_cast<float>(sampling.temperature)));
  if (sampling.top_p < 1) add(llama_sampler_init_top_p(static_cast<float>(sampling.top_p), 1));
  if (sampling.min_p > 0) add(llama_sampler_init_min_p(static_cast<float>(sampling.min_p), 1));
  add(llama_sampler_init_dist(fold_seed(sampling.seed.value_or(request.id.value))));
}

TokenId LlamaSampler::greedy(std::uint32_t index, bool may_stop) const {
  const float* logits = llama_get_logits_ith(context_, static_cast<std::int32_t>(index));
  const auto masked = [&](TokenId token) {
    return std::ranges::find(never_, token) != never_.end() ||
           (!may_stop && std::ranges::find(not_yet_, token) != not_yet_.end());
  };
  TokenId best = -1;
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (best >= 0 && !(logits[token] > logits[best])) continue;
    if (!masked(token)) best = token;
  }
  return std::max(best, 0);
}

TokenId LlamaSampler::sample(std::uint32_t index, bool may_stop) {
  if (!chain_ && penalties_.empty()) return greedy(index, may_stop);

  const float* logits = llama_get_logits_ith(context_, static_cast<std::int32_t>(index));
  candidates_.resize(static_cast<std::size_t>(vocab_size_));
  for (TokenId token = 0; token < vocab_size_; ++token) {
    candidates_[static_cast<std::size_t>(token)] = {token, logits[token], 0.0F};
  }
  const auto mask = [this](const std::vector<TokenId>& tokens) {
    for (const TokenId token : tokens) {
      candidates_[static_cast<std::size_t>(token)].logit = -std::numeric_limits<float>::infinity();
    }
  };
  llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
  for (const auto& penalty : penalties_) llama_sampler_apply(penalty.get(), &array);
  mask(never_);
  if (!may_stop) mask(not_yet_);

  TokenId token = 0;
  if (chain_) {
    llama_sampler_apply(chain_.get(), &array);
    KV_CHECK(array.selected >= 0 && static_cast<std::size_t>(array.selected) < array.size);
    token = array.data[array.selected].id;
    llama_sampler_accept(chain_.get(), token);
  } else {
    token = std::max_element(array.data, array.data + array.size, [](const auto& a, const auto& b) {
              return a.logit < b.logit;
            })->id;
  }
  for (const auto& penalty : penalties_) llama_sampler_accept(penalty.get(), token);
  return token;
}

}  // namespace kvern::engine
