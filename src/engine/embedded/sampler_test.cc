#include "engine/embedded/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace kvern::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

GenerateRequest asking(ir::Sampling sampling) {
  GenerateRequest request;
  request.id = RequestId{1};
  request.sampling = std::move(sampling);
  return request;
}

Sampler sampler_for(const GenerateRequest& request, std::size_t vocabulary, const Tokens& prompt = {},
                    const Tokens& end_tokens = {}) {
  return {request, prompt, end_tokens, static_cast<std::uint32_t>(vocabulary)};
}

TokenId first_of(const GenerateRequest& request, const std::vector<float>& logits, const Tokens& prompt = {},
                 const Tokens& end_tokens = {}, bool may_stop = true) {
  SamplerScratch scratch;
  return sampler_for(request, logits.size(), prompt, end_tokens).draw(logits, may_stop, scratch).token;
}

std::vector<float> random_logits(Rng& rng, std::size_t count, double spread) {
  std::vector<float> logits(count);
  for (float& logit : logits) {
    // The sum of uniforms: near enough to a bell.
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(rng.below(1U << 20U)) / (1U << 20U);
    logit = static_cast<float>(sum * spread);
  }
  return logits;
}

/// Naive: the probabilities that the settings leave, by sorting everything, in double.
std::map<TokenId, double> allowed(const ir::Sampling& sampling, const std::vector<float>& logits) {
  std::vector<std::pair<double, TokenId>> order;
  order.reserve(logits.size());
  const double best = *std::ranges::max_element(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(std::exp((logits[i] - best) / sampling.temperature), static_cast<TokenId>(i));
  }
  std::ranges::sort(
      order, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  if (sampling.top_k > 0 && order.size() > static_cast<std::size_t>(sampling.top_k)) {
    order.resize(static_cast<std::size_t>(sampling.top_k));
  }
  while (order.back().first < sampling.min_p * order.front().first * (1 - 1e-12)) order.pop_back();
  double total = 0;
  for (const auto& [mass, token] : order) total += mass;
  double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < sampling.top_p * total)) sum += order[kept++].first;
  order.resize(kept);
  std::map<TokenId, double> result;
  for (const auto& [mass, token] : order) result[token] = mass / sum;
  return result;
}

/// How often each token comes first over `draws` seeds.
std::map<TokenId, int> frequencies(ir::Sampling sampling, const std::vector<float>& logits, int draws) {
  std::map<TokenId, int> counts;
  for (int seed = 0; seed < draws; ++seed) {
    sampling.seed = static_cast<std::uint64_t>(seed);
    ++counts[first_of(asking(sampling), logits)];
  }
  return counts;
}

TEST(Likeliest, AgreesWithSorting) {
  Rng rng(3);
  for (const std::size_t size : {1U, 7U, 300U, 2000U}) {
    auto logits = random_logits(rng, size, 2);
    for (float& logit : logits) {
      logit = std::round(logit);  // many ties
      if (rng.below(9) == 0) logit = rng.below(2) == 0 ? kNan : -kInfinity;
    }
    std::vector<Candidate> sorted;
    for (std::size_t i = 0; i < size; ++i) {
      if (logits[i] > -kInfinity) sorted.push_back({logits[i], static_cast<TokenId>(i)});
    }
    std::ranges::sort(sorted, [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
    });
    std::vector<Candidate> out;
    for (const std::size_t count : {0U, 1U, 3U, 64U, 256U, 257U, 1000U, 5000U}) {
      likeliest(logits, count, out);
      const std::vector<Candidate> want(sorted.begin(),
                                        sorted.begin() + static_cast<std::ptrdiff_t>(std::min(count, sorted.size())));
      EXPECT_EQ(out, want) << size << " " << count;
    }
  }
}

TEST(Sampler, PenaltiesAreThoseOfVllm) {
  struct Case {
    const char* what;
    ir::Sampling sampling;
    Tokens prompt;
    Tokens already;  // answer so far
    std::vector<float> logits;
    TokenId want;
  };
  const auto with = [](double presence, double frequency, double repetition) {
    ir::Sampling sampling;
    sampling.temperature = 0;
    sampling.presence_penalty = presence;
    sampling.frequency_penalty = frequency;
    sampling.repetition_penalty = repetition;
    return sampling;
  };
  const std::vector<Case> cases{
      {"none", with(0, 0, 1), {0}, {0, 0}, {2.0F, 1.9F, 0}, 0},
      {"presence once, however often", with(0.5, 0, 1), {}, {0, 0, 0}, {2.0F, 1.4F, 0}, 0},
      {"presence is enough", with(0.7, 0, 1), {}, {0}, {2.0F, 1.4F, 0}, 1},
      {"presence looks at the answer only", with(2, 0, 1), {0}, {}, {2.0F, 1.4F, 0}, 0},
      {"frequency a time", with(0, 0.25, 1), {}, {0, 0}, {2.0F, 1.4F, 0}, 0},
      {"frequency adds up", with(0, 0.25, 1), {}, {0, 0, 0}, {2.0F, 1.4F, 0}, 1},
      {"repetition divides what is positive", with(0, 0, 1.5), {}, {0}, {2.0F, 1.4F, 0}, 1},
      {"repetition multiplies what is negative", with(0, 0, 1.5), {}, {0}, {-1.0F, -1.4F, -9}, 1},
      {"repetition looks at the prompt too", with(0, 0, 1.5), {0}, {}, {2.0F, 1.4F, 0}, 1},
      {"repetition once, however often", with(0, 0, 1.2), {0, 0}, {0, 0}, {2.0F, 1.6F, 0}, 0},
      {"below one it encourages", with(0, 0, 0.5), {1}, {}, {2.0F, 1.4F, 0}, 1},
  };
  for (const Case& each : cases) {
    SamplerScratch scratch;
    Sampler sampler = sampler_for(asking(each.sampling), each.logits.size(), each.prompt);
    for (const TokenId token : each.already) {
      std::vector<float> forced(each.logits.size(), -1e30F);
      forced[static_cast<std::size_t>(token)] = 1e30F;
      ASSERT_EQ(sampler.draw(forced, true, scratch).token, token) << each.what;
    }
    EXPECT_EQ(sampler.draw(each.logits, true, scratch).token, each.want) << each.what;
  }
}

TEST(Sampler, BiasAndMasksDecideWhoMayCome) {
  ir::Sampling greedy;
  greedy.temperature = 0;
  const std::vector<float> logits{1, 5, 4, 3};
  EXPECT_EQ(first_of(asking(greedy), logits), 1);

  ir::Sampling biased = greedy;
  biased.logit_bias = {{1, -100.0F}, {3, 2.0F}};
  EXPECT_EQ(first_of(asking(biased), logits), 3);
  biased.logit_bias = {{0, 100.0F}};
  EXPECT_EQ(first_of(asking(biased), logits), 0);
  biased.logit_bias = {{-1, 100.0F}, {99, 100.0F}, {2, kNan}, {3, kInfinity}};  // no tokens, no numbers: ignored
  EXPECT_EQ(first_of(asking(biased), logits), 1);

  GenerateRequest early = asking(greedy);
  early.min_tokens = 2;
  early.stop_token_ids = {2, 1000};
  EXPECT_EQ(first_of(early, logits, {}, {1}, false), 3);
  EXPECT_EQ(first_of(early, logits, {}, {1}, true), 1);
  GenerateRequest endless = asking(greedy);
  endless.ignore_eos = true;
  EXPECT_EQ(first_of(endless, logits, {}, {1}), 2);
  endless.stop_token_ids = {1};  // asked for by name
  EXPECT_EQ(first_of(endless, logits, {}, {1}), 1);
  // A mask is stronger than a bias.
  endless.stop_token_ids = {};
  endless.sampling.logit_bias = {{1, 100.0F}};
  EXPECT_EQ(first_of(endless, logits, {}, {1}), 2);
}

TEST(Sampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  Rng rng(11);
  struct Case {
    const char* what;
    double temperature, top_p;
    std::int32_t top_k;
    double min_p;
  };
  for (const Case& each :
       {Case{"all", 1, 1, 0, 0}, Case{"hot", 2, 1, 0, 0}, Case{"cold", 0.4, 1, 0, 0}, Case{"top_k", 1, 1, 5, 0},
        Case{"top_p", 1, 0.7, 0, 0}, Case{"min_p", 1, 1, 0, 0.2}, Case{"together", 0.8, 0.9, 12, 0.05}}) {
    const auto logits = random_logits(rng, 200, 2);
    ir::Sampling sampling;
    sampling.temperature = each.temperature;
    sampling.top_p = each.top_p;
    sampling.top_k = each.top_k;
    sampling.min_p = each.min_p;
    const auto want = allowed(sampling, logits);
    constexpr int kDraws = 20000;
    const auto counts = frequencies(sampling, logits, kDraws);
    double distance = 0;
    for (const auto& [token, count] : counts) ASSERT_TRUE(want.contains(token)) << each.what << " drew " << token;
    for (const auto& [token, probability] : want) {
      const auto found = counts.find(token);
      const double got = found == counts.end() ? 0 : static_cast<double>(found->second) / kDraws;
      distance += std::abs(got - probability) / 2;
      // Five standard deviations of a binomial.
      EXPECT_NEAR(got, probability, 5 * std::sqrt(probability / kDraws) + 1e-4) << each.what << " token " << token;
    }
    EXPECT_LT(distance, 0.05) << each.what;
  }
}

TEST(Sampler, CutsExactlyWhereSortingWould) {
  Rng rng(12);
  for (int round = 0; round < 300; ++round) {
    const std::size_t size = 1 + rng.below(1500);
    const auto logits = random_logits(rng, size, 0.2 + 0.1 * static_cast<double>(rng.below(30)));
    ir::Sampling sampling;
    sampling.temperature = 0.3 + 0.1 * static_cast<double>(rng.below(15));
    if (rng.below(2) == 0) sampling.top_k = static_cast<std::int32_t>(1 + rng.below(400));
    if (rng.below(2) == 0) sampling.top_p = 0.01 * static_cast<double>(rng.below(100));
    if (rng.below(2) == 0) sampling.min_p = 0.01 * static_cast<double>(rng.below(100));
    const auto want = allowed(sampling, logits);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      sampling.seed = seed;
      ASSERT_TRUE(want.contains(first_of(asking(sampling), logits))) << "round " << round;
    }
  }
}

TEST(Sampler, ASeedRepeatsTheAnswerAndNothingElseDoes) {
  Rng rng(5);
  const auto logits = random_logits(rng, 1000, 1);
  ir::Sampling sampling;
  const auto answer = [&](std::uint64_t id, std::optional<std::uint64_t> seed) {
    sampling.seed = seed;
    GenerateRequest request = asking(sampling);
    request.id = RequestId{id};
    SamplerScratch scratch;
    Sampler sampler = sampler_for(request, logits.size());
    Tokens tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(sampler.draw(logits, true, scratch).token);
    return tokens;
  };
  EXPECT_EQ(answer(1, 42), answer(2, 42));
  EXPECT_NE(answer(1, 42), answer(1, 43));
  EXPECT_NE(answer(1, {}), answer(2, {}));
  EXPECT_EQ(answer(1, {}), answer(1, {}));
  const Tokens tokens = answer(1, 42);
  EXPECT_GT(std::set(tokens.begin(), tokens.end()).size(), 20U) << "places are drawn apart";
}

TEST(Sampler, ASeededAnswerHoldsWhenTheLogitsMoveALittle) {
  Rng rng(6);
  const auto logits = random_logits(rng, 500, 1);
  auto moved = logits;
  for (float& logit : moved) logit += static_cast<float>(rng.below(1000)) * 1e-5F - 5e-3F;
  ir::Sampling sampling;
  const auto before = allowed(sampling, logits);
  const auto after = allowed(sampling, moved);
  double variation = 0;
  for (const auto& [token, probability] : before) variation += std::abs(probability - after.at(token)) / 2;
  constexpr int kDraws = 20000;
  int changed = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    sampling.seed = static_cast<std::uint64_t>(seed);
    if (first_of(asking(sampling), logits) != first_of(asking(sampling), moved)) ++changed;
  }
  // Gumbel-max changes at most 2 d / (1 + d) of the draws, d being the total variation; five standard deviations more.
  const double bound = 2 * variation / (1 + variation);
  EXPECT_LT(changed, kDraws * bound + 5 * std::sqrt(kDraws * bound)) << "variation " << variation;
}

TEST(Sampler, ReportsTheModelsOwnLogProbabilities) {
  Rng rng(7);
  const auto logits = random_logits(rng, 800, 3);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  GenerateRequest request = asking({});
  // None of these may show.
  request.sampling.temperature = 0.5;
  request.sampling.top_k = 3;
  request.sampling.presence_penalty = 1;
  request.sampling.logit_bias = {{7, 50.0F}};
  for (const std::uint32_t count : {0U, 1U, 5U, 20U, 5000U}) {
    request.logprobs = count;
    SamplerScratch scratch;
    const Drawn drawn = sampler_for(request, logits.size()).draw(logits, true, scratch);
    ASSERT_TRUE(drawn.logprob.has_value());
    EXPECT_NEAR(drawn.logprob->logprob, logits[static_cast<std::size_t>(drawn.token)] - std::log(sum), 1e-4);
    ASSERT_EQ(drawn.logprob->top.size(), std::min<std::size_t>(count, logits.size()));
    std::vector<Candidate> want;
    likeliest(logits, count, want);
    double mass = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(drawn.logprob->top[i].first, want[i].token);
      EXPECT_NEAR(drawn.logprob->top[i].second, want[i].logit - std::log(sum), 1e-4);
      mass += std::exp(drawn.logprob->top[i].second);
    }
    if (count >= logits.size()) {
      EXPECT_NEAR(mass, 1, 1e-4);
    }
  }
  request.logprobs.reset();
  SamplerScratch scratch;
  EXPECT_FALSE(sampler_for(request, logits.size()).draw(logits, true, scratch).logprob.has_value());
}

TEST(Sampler, LogitsThatAreNoNumbersAreNoCrash) {
  const std::vector<std::vector<float>> tables{{kNan, kNan, kNan, kNan},
                                               {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
                                               {kInfinity, kInfinity, 1, kNan},
                                               {kNan, 3.4e38F, -3.4e38F, -kInfinity},
                                               {-3.4e38F, -3.4e38F, -3.4e38F, -3.4e38F},
                                               {0, kNan, -kInfinity, kInfinity}};
  for (const auto& logits : tables) {
    for (const double temperature : {0.0, 1e-4, 1.0, 100.0, static_cast<double>(kNan)}) {
      for (const double top_p : {0.0, 0.5, 1.0}) {
        GenerateRequest request = asking({});
        request.sampling.temperature = temperature;
        request.sampling.top_p = top_p;
        request.sampling.min_p = 1 - top_p;
        request.sampling.top_k = top_p == 0.5 ? 2 : 0;
        request.sampling.frequency_penalty = top_p;
        request.sampling.repetition_penalty = 1.5;
        request.ignore_eos = true;
        request.logprobs = 2;
        SamplerScratch scratch;
        Sampler sampler = sampler_for(request, logits.size(), {1, 2}, {1});
        for (int i = 0; i < 4; ++i) {
          const Drawn drawn = sampler.draw(logits, true, scratch);
          ASSERT_GE(drawn.token, 0);
          ASSERT_LT(drawn.token, 4);
          ASSERT_NE(drawn.token, 1) << "masked";
          ASSERT_TRUE(std::isfinite(drawn.logprob->logprob));
          ASSERT_LE(drawn.logprob->logprob, 0);
          for (const auto& [token, logprob] : drawn.logprob->top) ASSERT_TRUE(std::isfinite(logprob));
        }
      }
    }
  }
}

TEST(Sampler, AnyBitsAtAllGiveAToken) {
  Rng rng(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> logits(1 + rng.below(40));
    for (float& logit : logits) {
      logit = rng.below(3) == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(rng.next())) : 1.0F;
    }
    GenerateRequest request = asking({});
    request.sampling.temperature = static_cast<double>(rng.below(4));
    request.sampling.top_k = static_cast<std::int32_t>(rng.below(50));
    request.sampling.top_p = 0.1 * static_cast<double>(rng.below(11));
    request.sampling.min_p = 0.1 * static_cast<double>(rng.below(11));
    request.sampling.presence_penalty = rng.below(2) == 0 ? 0 : 2;
    request.logprobs = static_cast<std::uint32_t>(rng.below(3));
    SamplerScratch scratch;
    Sampler sampler = sampler_for(request, logits.size());
    for (int i = 0; i < 3; ++i) {
      const Drawn drawn = sampler.draw(logits, true, scratch);
      ASSERT_GE(drawn.token, 0);
      ASSERT_LT(static_cast<std::size_t>(drawn.token), logits.size());
    }
  }
}

}  // namespace
}  // namespace kvern::engine
