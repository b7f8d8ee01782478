#include "engine/embedded/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kvern::engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
// Below this the draw is greedy anyway.
constexpr double kTemperatureMin = 1e-5;
// What vLLM reports for the impossible: JSON has no infinity.
constexpr float kLogprobMin = -9999.0F;
// Up to this many candidates a heap beats picking all tokens apart.
constexpr std::size_t kHeapMax = 256;

bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

float usable(float logit) {
  if (logit <= kLargest) return logit;
  return logit > kLargest ? kLargest : kImpossible;  // +infinity, NaN
}

float clamped(double logit) { return static_cast<float>(std::clamp(logit, -double{kLargest}, double{kLargest})); }

/// The finaliser of splitmix64: every bit of the result depends on every bit of `x`.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

Candidate largest(std::span<const float> logits) {
  Candidate best{kImpossible, -1};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best.logit) best = {logits[i], static_cast<TokenId>(i)};
  }
  return best;
}

void sort_unique(std::vector<TokenId>& tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

}  // namespace

void likeliest(std::span<const float> logits, std::size_t count, std::vector<Candidate>& out) {
  out.clear();
  if (count == 0) return;
  if (count <= kHeapMax) {
    // A heap with the worst on top. Of equal ones the first seen stays, as tokens come in order.
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float logit = logits[i];
      if (!(logit > (out.size() < count ? kImpossible : out.front().logit))) continue;
      if (out.size() == count) {
        std::ranges::pop_heap(out, better);
        out.pop_back();
      }
      out.push_back({logit, static_cast<TokenId>(i)});
      std::ranges::push_heap(out, better);
    }
  } else {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > kImpossible) out.push_back({logits[i], static_cast<TokenId>(i)});
    }
    if (out.size() > count) {
      std::ranges::nth_element(out, out.begin() + static_cast<std::ptrdiff_t>(count), better);
      out.resize(count);
    }
  }
  std::ranges::sort(out, better);
}

/// Gumbel-max, as an exponential race: token i arrives after -ln(u_i) / p_i, and the first to arrive is drawn with
/// probability p_i. u_i is a hash of seed, place and token. Chosen over the inverse of the cumulative distribution with
/// one number a place, because it keeps a seeded answer the same where other work in the batch moves the logits a
/// little: a token loses only to one that was nearly as early, with at most twice the probability by which the two
/// distributions differ, whereas a shift in one token moves the boundaries of all after it.
///
/// Cost a token: a hash and a comparison. -ln(u) >= 1 - u, and p_i is at most e^-floor(distance to the best), so nearly
/// all are ruled out without a logarithm or an exponential.
struct Sampler::Race {
  static constexpr std::size_t kSteps = 64;

  Race(std::uint64_t seed, std::uint64_t place, double temperature, float best)
      : key(mixed(mixed(seed + 0x9E3779B97F4A7C15ULL) ^ (place + 1) * 0xD1342543DE82EF95ULL)),
        scale(1 / temperature),
        best_logit(best) {
    for (std::size_t i = 0; i < kSteps; ++i) ladder[i] = std::exp(-static_cast<double>(i));
  }

  void enter(float logit, TokenId token) {
    const std::uint64_t bits = mixed(key ^ (static_cast<std::uint64_t>(token) + 1) * 0x9E3779B97F4A7C15ULL);
    const double rest = (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53;  // 1 - u
    const double distance = (double{best_logit} - double{logit}) * scale;
    const std::size_t step = distance < kSteps - 1 ? static_cast<std::size_t>(distance) : kSteps - 1;
    if (rest >= arrival * ladder[step]) return;
    const double at = -std::log1p(-rest) * std::exp(distance);
    if (at >= arrival) return;
    arrival = at;
    winner = token;
  }

  const std::uint64_t key;
  const double scale;
  const float best_logit;
  std::array<double, kSteps> ladder{};
  double arrival = std::numeric_limits<double>::infinity();
  TokenId winner = -1;
};

Sampler::Sampler(const GenerateRequest& request, std::span<const TokenId> prompt, std::span<const TokenId> end_tokens,
                 std::uint32_t vocab_size)
    : vocab_size_(vocab_size),
      sampling_(request.sampling),
      seed_(request.sampling.seed.value_or(request.id.value)),
      logprobs_(request.logprobs),
      greedy_(!(request.sampling.temperature >= kTemperatureMin)),
      penalised_(request.sampling.presence_penalty != 0 || request.sampling.frequency_penalty != 0 ||
                 request.sampling.repetition_penalty != 1) {
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
      if (token >= 0 && static_cast<std::uint32_t>(token) < vocab_size_) not_yet_.push_back(token);
    }
  }
  sort_unique(never_);
  sort_unique(not_yet_);
  if (sampling_.repetition_penalty != 1) {
    for (const TokenId token : prompt) seen_[token].in_prompt = true;
  }
}

bool Sampler::masked(TokenId token, bool may_stop) const {
  return std::ranges::binary_search(never_, token) || (!may_stop && std::ranges::binary_search(not_yet_, token));
}

bool Sampler::edits_logits(bool may_stop) const {
  return penalised_ || !sampling_.logit_bias.empty() || !never_.empty() || (!may_stop && !not_yet_.empty());
}

Drawn Sampler::draw(std::span<const float> logits, bool may_stop, SamplerScratch& scratch) {
  KV_CHECK(logits.size() == vocab_size_);
  Drawn drawn;
  if (greedy_ && !penalised_ && sampling_.logit_bias.empty()) {
    drawn.token = greedy(logits, may_stop);
  } else {
    drawn.token = choose(logits, may_stop, scratch);
  }
  if (logprobs_) {
    scratch.logits.resize(logits.size());
    std::ranges::transform(logits, scratch.logits.begin(), usable);
    drawn.logprob = logprob(drawn.token, scratch);
  }
  ++place_;
  if (penalised_) ++seen_[drawn.token].drawn;
  return drawn;
}

TokenId Sampler::greedy(std::span<const float> logits, bool may_stop) const {
  float best_logit = kImpossible;
  TokenId best = -1;
  TokenId first = -1;
  for (TokenId token = 0; token < static_cast<TokenId>(logits.size()); ++token) {
    const float logit = logits[static_cast<std::size_t>(token)];
    if (!(logit > best_logit) && first >= 0) continue;
    if (masked(token, may_stop)) continue;
    if (first < 0) first = token;
    if (logit > best_logit) {
      best_logit = logit;
      best = token;
    }
  }
  return best >= 0 ? best : std::max(first, 0);
}

TokenId Sampler::choose(std::span<const float> raw, bool may_stop, SamplerScratch& scratch) const {
  scratch.logits.resize(raw.size());
  std::ranges::transform(raw, scratch.logits.begin(), usable);
  if (edits_logits(may_stop)) edit(may_stop, scratch.logits);
  const Candidate best = largest(scratch.logits);
  if (best.token < 0) return greedy(scratch.logits, may_stop);  // nothing is possible
  if (greedy_) return best.token;
  if (sampling_.top_k > 0 || sampling_.top_p < 1) return draw_from_few(scratch.logits, best, scratch.candidates);
  return draw_from_all(scratch.logits, best);
}

void Sampler::edit(bool may_stop, std::span<float> logits) const {
  for (const auto& [token, bias] : sampling_.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size() || !std::isfinite(bias)) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    if (logit > kImpossible) logit = clamped(double{logit} + double{bias});
  }
  for (const auto& [token, seen] : seen_) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    if (!(logit > kImpossible)) continue;
    double penalised = logit;
    const double repetition = sampling_.repetition_penalty;
    if (repetition > 0) penalised = penalised > 0 ? penalised / repetition : penalised * repetition;
    penalised -= sampling_.frequency_penalty * seen.drawn;
    if (seen.drawn > 0) penalised -= sampling_.presence_penalty;
    logit = clamped(penalised);
  }
  const auto mask = [&](const std::vector<TokenId>& tokens) {
    for (const TokenId token : tokens) {
      if (token >= 0 && static_cast<std::size_t>(token) < logits.size()) {
        logits[static_cast<std::size_t>(token)] = kImpossible;
      }
    }
  };
  mask(never_);
  if (!may_stop) mask(not_yet_);
}

/// Tokens below it have less than min_p times the best one's probability.
double Sampler::floor_below(Candidate best) const {
  if (!(sampling_.min_p > 0)) return -std::numeric_limits<double>::infinity();
  return best.logit + sampling_.temperature * std::log(std::min(sampling_.min_p, 1.0));
}

TokenId Sampler::draw_from_all(std::span<const float> logits, Candidate best) const {
  const double floor = floor_below(best);
  Race race(seed_, place_, sampling_.temperature, best.logit);
  race.enter(best.logit, best.token);  // first, so that it rules out most
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kImpossible && logits[i] >= floor) race.enter(logits[i], static_cast<TokenId>(i));
  }
  return race.winner < 0 ? best.token : race.winner;
}

TokenId Sampler::draw_from_few(std::span<const float> logits, Candidate best,
                               std::vector<Candidate>& candidates) const {
  if (sampling_.top_k > 0) {
    likeliest(logits, static_cast<std::size_t>(sampling_.top_k), candidates);
    const double floor = floor_below(best);
    while (candidates.back().logit < floor) candidates.pop_back();
  }
  if (sampling_.top_p < 1) cut_to_top_p(logits, best, candidates);
  Race race(seed_, place_, sampling_.temperature, best.logit);
  for (const Candidate& candidate : candidates) race.enter(candidate.logit, candidate.token);
  return race.winner < 0 ? best.token : race.winner;
}

/// Leaves the likeliest whose mass reaches top_p, of the given candidates after a top_k, else of all. At least one.
void Sampler::cut_to_top_p(std::span<const float> logits, Candidate best, std::vector<Candidate>& candidates) const {
  const double scale = 1 / sampling_.temperature;
  const auto mass = [&](float logit) { return std::exp((double{logit} - double{best.logit}) * scale); };
  const double floor = floor_below(best);
  double total = 0;
  if (sampling_.top_k > 0) {
    for (const Candidate& candidate : candidates) total += mass(candidate.logit);
  } else {
    for (const float logit : logits) total += logit > kImpossible && logit >= floor ? mass(logit) : 0;
  }
  const double wanted = std::max(sampling_.top_p, 0.0) * total;
  for (std::size_t count = 64;; count *= 8) {
    if (sampling_.top_k <= 0) likeliest(logits, count, candidates);
    double sum = 0;
    std::size_t kept = 0;
    while (kept < candidates.size() && candidates[kept].logit >= floor && (kept == 0 || sum < wanted)) {
      sum += mass(candidates[kept++].logit);
    }
    // Fewer than there are only when more may be wanted: then look at more of them.
    if (kept < candidates.size() || sum >= wanted || sampling_.top_k > 0 || count >= logits.size()) {
      candidates.resize(kept);
      return;
    }
  }
}

TokenLogprob Sampler::logprob(TokenId token, SamplerScratch& scratch) const {
  const std::span<const float> logits = scratch.logits;
  likeliest(logits, std::min<std::size_t>(std::max(*logprobs_, 1U), logits.size()), scratch.candidates);
  double sum = 0;
  double best = 0;
  if (!scratch.candidates.empty()) {
    best = scratch.candidates.front().logit;
    for (const float logit : logits) sum += std::exp(logit - static_cast<float>(best));
  }
  const double whole = best + std::log(sum);
  const auto of = [&](float logit) {
    const auto value = static_cast<float>(double{logit} - whole);
    return value > kLogprobMin ? std::min(value, 0.0F) : kLogprobMin;  // no numbers at all: the minimum
  };
  TokenLogprob result{.logprob = of(logits[static_cast<std::size_t>(token)]), .top = {}};
  if (*logprobs_ > 0) {
    result.top.reserve(scratch.candidates.size());
    for (const Candidate& candidate : scratch.candidates) result.top.emplace_back(candidate.token, of(candidate.logit));
  }
  return result;
}

}  // namespace kvern::engine
