// The engine with the default model. Sizes are small by default (the machine that runs `make check` may be slow);
// KVERN_FULL=1 runs those the claims are made for.
#include "engine/embedded/embedded_engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/rng.h"
#include "engine/embedded/engine_harness.h"
#include "engine/embedded/llama_backend.h"

namespace kvern::engine {
namespace {

using harness::Answer;
using harness::Collector;
using harness::Words;

bool full() {
  const char* value = std::getenv("KVERN_FULL");
  return value != nullptr && *value != '\0' && *value != '0';
}

class EmbeddedEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { words_ = std::make_unique<Words>(model_path()); }
  static void TearDownTestSuite() { words_.reset(); }
  static std::string model_path() { return KVERN_CACHE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf"; }

  void open(EmbeddedOptions options = {}) {
    options.model_path = model_path();
    auto loaded = EmbeddedEngine::load(options);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    engine_ = std::move(*loaded);
  }

  static std::string turn(const std::string& user) {
    return "<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n";
  }
  static std::string chat(const std::string& user) {
    return "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
           turn(user);
  }
  /// `count` tokens that repeat nothing within a block; `kind` makes them differ from the first one on.
  static Tokens numbers(std::size_t count, TokenId kind) {
    Tokens tokens(count);
    for (std::size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<TokenId>(1000 + (static_cast<std::size_t>(kind) * 131 + i * 37) % 40000);
    }
    return tokens;
  }
  GenerateRequest request(Tokens prompt, std::uint32_t max_tokens) {
    GenerateRequest made;
    made.id = RequestId{next_id_++};
    made.prompt = std::move(prompt);
    made.max_tokens = max_tokens;
    made.sampling.temperature = 0;
    return made;
  }
  RequestId submit(GenerateRequest made) {
    const RequestId id = made.id;
    const auto submitted = engine_->submit(std::move(made), sink_);
    EXPECT_TRUE(submitted.ok()) << submitted.error().message;
    return id;
  }
  Answer ask(GenerateRequest made) {
    const Answer answer = sink_->wait(submit(std::move(made)));
    EXPECT_TRUE(answer.finished.has_value());
    EXPECT_FALSE(answer.out_of_order);
    return answer;
  }
  Answer ask(const std::string& text, std::uint32_t max_tokens) {
    return ask(request(words_->tokens(text), max_tokens));
  }
  static std::uint32_t cached(const Answer& answer) { return answer.accepted->cached_tokens.value(); }

  static std::unique_ptr<Words> words_;
  std::unique_ptr<EmbeddedEngine> engine_;
  std::shared_ptr<Collector> sink_ = std::make_shared<Collector>();
  std::uint64_t next_id_ = 1;
};

std::unique_ptr<Words> EmbeddedEngineTest::words_;

TEST_F(EmbeddedEngineTest, Answers) {
  open();
  EXPECT_EQ(engine_->model().name, "SmolLM2-135M-Instruct.Q4_1");
  EXPECT_EQ(engine_->model().context_tokens, 8192U);
  EXPECT_EQ(engine_->model().vocab_size, 49152U);
  EXPECT_EQ(engine_->cell_bytes(), 23040U);
  EXPECT_TRUE(engine_->reuses_blocks());
  EXPECT_TRUE(engine_->warnings().empty());
  const Answer answer = ask(turn("What is the capital of France?"), 40);
  EXPECT_EQ(words_->text(answer.tokens), "The capital of France is Paris.");
  EXPECT_EQ(answer.finished->cause, StopCause::kEos);
  EXPECT_EQ(answer.finished->completion_tokens, answer.tokens.size() + 1);
  EXPECT_TRUE(engine_->healthy());
}

TEST_F(EmbeddedEngineTest, TheSecondTurnComputesWhatIsNew) {
  open();
  const std::size_t tokens = full() ? 3000 : 640;
  Tokens history = words_->tokens(chat("Read this list of numbers."));
  const Tokens list = numbers(tokens - history.size(), 1);
  history.insert(history.end(), list.begin(), list.end());

  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const Answer first = ask(request(history, 12));
  const auto between = Clock::now();
  const std::uint64_t computed_first = engine_->stats().computed_tokens;
  EXPECT_EQ(cached(first), 0U);
  EXPECT_EQ(computed_first, tokens);

  history.insert(history.end(), first.tokens.begin(), first.tokens.end());
  const Tokens next = words_->tokens("<|im_end|>\n" + turn("And now?"));
  history.insert(history.end(), next.begin(), next.end());
  const auto second_start = Clock::now();
  const RequestId id = submit(request(history, 12));
  sink_->wait_tokens(id, 1);
  const auto second_first_token = Clock::now();
  const Answer second = sink_->wait(id);
  const std::uint64_t computed_second = engine_->stats().computed_tokens - computed_first;
  EXPECT_EQ(computed_second, history.size() - cached(second));
  EXPECT_LE(computed_second, tokens / 20);
  std::cout << fmt::format("turn 1: {} tokens computed in {:.2f} s; turn 2: {} of {} in {:.3f} s to its first token\n",
                           computed_first, std::chrono::duration<double>(between - start).count(), computed_second,
                           history.size(), std::chrono::duration<double>(second_first_token - second_start).count());
}

TEST_F(EmbeddedEngineTest, ASharedPrefixInFlightIsComputedOnce) {
  open();
  const std::size_t shared = full() ? 1024 : 256;
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 8; ++i) {
    Tokens prompt = numbers(shared, 3);
    const Tokens own = numbers(5, 100 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    ids.push_back(submit(request(prompt, 4)));
  }
  for (const RequestId id : ids) EXPECT_TRUE(sink_->wait(id).finished);
  EXPECT_EQ(engine_->stats().computed_tokens, shared + 8 * 5);
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(cached(sink_->peek(ids[i])), shared);
}

TEST_F(EmbeddedEngineTest, ManyDistinctPrefixesAllHitAfterwards) {
  open();
  const TokenId prefixes = full() ? 300 : 20;
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < prefixes; ++i) ids.push_back(submit(request(numbers(64, i), 1)));
  for (const RequestId id : ids) EXPECT_EQ(cached(sink_->wait(id)), 0U);
  for (TokenId i = 0; i < prefixes; ++i) {
    Tokens prompt = numbers(64, i);
    prompt.push_back(500);
    EXPECT_EQ(cached(ask(request(prompt, 1))), 64U) << i;
  }
  engine_->wait_idle();
  EXPECT_EQ(engine_->stats().cache_blocks, static_cast<std::uint32_t>(prefixes) * 4U);
  EXPECT_EQ(engine_->stats().cells_used, static_cast<std::uint32_t>(prefixes) * 64U);
}

/// How far apart the model sees two candidates after `tokens`, computed on an empty cache. Logits of this model spread
/// over some 30. Another order of work (where a prompt was cut, which cells, who else is in the batch) moves one by 0.1
/// to 0.2 in the mean and up to 0.75, in plain llama.cpp as well: activations are rounded to 8 bits.
double logit_gap(const std::string& model, const Tokens& tokens, TokenId a, TokenId b) {
  auto backend = LlamaBackend::load({.model_path = model, .context_tokens = 1024, .cells = 1024});
  if (!backend) return 1e9;
  std::vector<BatchToken> batch;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({tokens[i], static_cast<std::int32_t>(i), 0, i + 1 == tokens.size()});
  }
  if ((*backend)->decode(batch) != DecodeStatus::kOk) return 1e9;
  const auto logits = (*backend)->logits(static_cast<std::uint32_t>(batch.size() - 1));
  return std::abs(double{logits[static_cast<std::size_t>(a)]} - double{logits[static_cast<std::size_t>(b)]});
}

constexpr double kNearTie = 0.75;

/// Two greedy answers to one prompt are equal, or part where the model sees both tokens nearly alike; then says so.
/// Returns whether they are equal.
bool expect_equal_but_for_near_ties(const std::string& model, const Tokens& prompt, const Tokens& one,
                                    const Tokens& two, TokenId end, const std::string& what) {
  if (one == two) return true;
  const auto common =
      static_cast<std::size_t>(std::mismatch(one.begin(), one.end(), two.begin(), two.end()).first - one.begin());
  const TokenId a = common < one.size() ? one[common] : end;
  const TokenId b = common < two.size() ? two[common] : end;
  Tokens before = prompt;
  before.insert(before.end(), one.begin(), one.begin() + static_cast<std::ptrdiff_t>(common));
  const double gap = logit_gap(model, before, a, b);
  std::cout << fmt::format("{}: differs at token {} ({} or {}), logits {:.4f} apart\n", what, common, a, b, gap);
  EXPECT_LT(gap, kNearTie) << "not a near-tie";
  return false;
}

TEST_F(EmbeddedEngineTest, AFullCacheForgetsTheLeastRecentlyUsed) {
  open({.ctx = 256, .kv_cache_tokens = 512});
  ASSERT_EQ(engine_->stats().cells_total, 512U);
  for (TokenId i = 0; i < 8; ++i) ask(request(numbers(64, i), 1));
  engine_->wait_idle();
  EXPECT_EQ(engine_->stats().cells_used, 512U);
  EXPECT_EQ(cached(ask(request(numbers(64, 0), 1))), 48U);
  EXPECT_EQ(cached(ask(request(numbers(64, 50), 1))), 0U);
  EXPECT_EQ(cached(ask(request(numbers(64, 0), 1))), 48U);
  EXPECT_EQ(cached(ask(request(numbers(64, 1), 1))), 0U);
  EXPECT_EQ(cached(ask(request(numbers(64, 7), 1))), 48U);
  EXPECT_LE(engine_->stats().cells_used, 512U);
  // A request as long as the context still fits, and answers as on an empty pool.
  const Tokens longest = numbers(240, 9);
  const Tokens on_a_full_pool = ask(request(longest, 16)).tokens;
  open({.ctx = 256, .kv_cache_tokens = 512});
  expect_equal_but_for_near_ties(model_path(), longest, ask(request(longest, 16)).tokens, on_a_full_pool, -1,
                                 "full pool");
}

TEST_F(EmbeddedEngineTest, GreedyAnswersAreTheSameColdAndWarm) {
  open();
  const std::vector<std::string> topics{"rivers", "the moon", "bread", "music", "prime numbers",
                                        "cats",   "trains",   "maps",  "rain",  "chess"};
  const std::vector<std::string> asks{"Write one sentence about {}.", "Give me three words about {}.",
                                      "Why do people like {}?", "Explain {} to a child.", "Ask me something about {}."};
  const std::size_t prompts = full() ? 50 : 6;
  std::vector<Tokens> asked;
  std::vector<Answer> cold;
  for (std::size_t i = 0; i < prompts; ++i) {
    const std::string text =
        fmt::format(fmt::runtime(asks[i % asks.size()]), topics[(i / asks.size() + i) % topics.size()]);
    // Another system prompt each, so that the first run shares nothing.
    asked.push_back(words_->tokens(fmt::format("<|im_start|>system\n{} is your number.<|im_end|>\n{}", i, turn(text))));
    cold.push_back(ask(request(asked.back(), 16)));
    EXPECT_EQ(cached(cold.back()), 0U);
  }
  const TokenId end = words_->tokens("<|im_end|>").at(0);
  int different = 0;
  const auto compare = [&](std::size_t i, const Answer& warm, const char* how) {
    EXPECT_GT(cached(warm), 0U);
    const std::string what = fmt::format("prompt {} {}", i, how);
    if (!expect_equal_but_for_near_ties(model_path(), asked[i], warm.tokens, cold[i].tokens, end, what)) ++different;
  };
  for (std::size_t i = 0; i < prompts; ++i) compare(i, ask(request(asked[i], 16)), "alone");
  // And all together, in one batch.
  std::vector<RequestId> ids;
  for (std::size_t i = 0; i < prompts; ++i) ids.push_back(submit(request(asked[i], 16)));
  for (std::size_t i = 0; i < prompts; ++i) compare(i, sink_->wait(ids[i]), "in a batch");
  std::cout << fmt::format("{} prompts, twice warm: {} differences\n", prompts, different);
}

TEST_F(EmbeddedEngineTest, ClientsThatHangUpLeaveNothingBehind) {
  open({.ctx = 1024, .kv_cache_tokens = 4096, .waiting_max = 256});
  const std::size_t clients = full() ? 200 : 30;
  Rng rng(11);
  std::vector<RequestId> ids;
  for (std::size_t i = 0; i < clients; ++i) {
    Tokens prompt = numbers(16 + rng.below(full() ? 300 : 80), static_cast<TokenId>(rng.below(12)));
    auto made = request(prompt, 1 + static_cast<std::uint32_t>(rng.below(60)));
    made.ignore_eos = true;
    made.priority = static_cast<std::int32_t>(rng.below(3));
    ids.push_back(submit(std::move(made)));
  }
  // Each goes at a moment of its own: waiting, in prefill, after some tokens, or when it was already done.
  for (const RequestId id : ids) {
    switch (rng.below(4)) {
      case 0: break;
      case 1: sink_->wait_accepted(id); break;
      case 2: sink_->wait_tokens(id, 1 + rng.below(4)); break;
      default: std::this_thread::yield();
    }
    engine_->cancel(id);
  }
  engine_->wait_idle();
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.running, 0U);
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.sequences_used, 0U);
  EXPECT_EQ(stats.cache_blocks_used, 0U);
  EXPECT_EQ(stats.cells_used, stats.cache_blocks * 16U);
  for (const RequestId id : ids) EXPECT_LE(sink_->peek(id).ends, 1);
  EXPECT_EQ(words_->text(ask(turn("What is the capital of France?"), 40).tokens), "The capital of France is Paris.");
  // The books agree with llama.cpp's own count once the cache is empty too.
  EXPECT_TRUE(engine_->verify_empty_after_clearing());
}

TEST_F(EmbeddedEngineTest, StopsAsAsked) {
  open();
  const Tokens prompt = words_->tokens(turn("What is the capital of France?"));
  const Tokens plain = ask(request(prompt, 40)).tokens;

  auto on = request(prompt, 30);
  on.ignore_eos = true;
  const Answer ignoring = ask(on);
  EXPECT_EQ(ignoring.tokens.size(), 30U);
  EXPECT_EQ(ignoring.finished->cause, StopCause::kLength);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), ignoring.tokens.begin()));

  auto at_least = request(prompt, 30);
  at_least.min_tokens = static_cast<std::uint32_t>(plain.size() + 4);
  EXPECT_GE(ask(at_least).tokens.size(), plain.size() + 4);

  auto stopping = request(prompt, 30);
  stopping.stop_token_ids = {plain[3]};
  const Answer stopped = ask(stopping);
  EXPECT_EQ(stopped.tokens, Tokens(plain.begin(), plain.begin() + 3));
  EXPECT_EQ(stopped.finished->cause, StopCause::kStopToken);
  EXPECT_EQ(stopped.finished->completion_tokens, 4U);
}

TEST_F(EmbeddedEngineTest, SamplesAsAsked) {
  open();
  const Tokens prompt = words_->tokens(turn("Tell me a story."));
  const auto sampled = [&](std::uint64_t seed) {
    auto made = request(prompt, 16);
    made.ignore_eos = true;
    made.sampling.temperature = 1.5;
    made.sampling.top_p = 0.95;
    made.sampling.min_p = 0.01;
    made.sampling.seed = seed;
    return ask(made).tokens;
  };
  ask(request(prompt, 1));  // so that all below start from the same cells
  EXPECT_EQ(sampled(7), sampled(7));
  EXPECT_NE(sampled(7), sampled(8));

  auto one = request(prompt, 12);
  one.sampling.temperature = 2;
  one.sampling.top_k = 1;
  EXPECT_EQ(ask(one).tokens, ask(request(prompt, 12)).tokens);

  // Greedy with strong penalties never repeats itself within so few tokens.
  auto penalised = request(prompt, 24);
  penalised.sampling.frequency_penalty = 2;
  penalised.sampling.presence_penalty = 2;
  penalised.sampling.repetition_penalty = 1.3;
  Tokens varied = ask(penalised).tokens;
  auto repeating = request(prompt, 24);
  EXPECT_NE(varied, ask(repeating).tokens);
}

TEST_F(EmbeddedEngineTest, TellsHowLikelyTokensWere) {
  open({.ctx = 512});
  auto made = request(words_->tokens(turn("What is the capital of France?")), 12);
  made.logprobs = 4;
  const Answer answer = ask(made);
  ASSERT_EQ(answer.logprobs.size(), answer.tokens.size());
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    const TokenLogprob& each = answer.logprobs[i];
    ASSERT_EQ(each.top.size(), 4U);
    EXPECT_EQ(each.top[0].first, answer.tokens[i]) << "greedy draws the likeliest";
    EXPECT_EQ(each.top[0].second, each.logprob);
    double mass = 0;
    for (const auto& [token, logprob] : each.top) mass += std::exp(logprob);
    EXPECT_LE(mass, 1.0001);
    EXPECT_GT(mass, 0.2);
  }
}

TEST_F(EmbeddedEngineTest, BiasMovesTheAnswer) {
  open({.ctx = 512});
  auto made = request(words_->tokens(turn("What is the capital of France?")), 6);
  const TokenId usual = ask(made).tokens.at(0);
  made.id = RequestId{next_id_++};
  made.sampling.logit_bias = {{usual, -100.0F}};
  const Tokens without = ask(made).tokens;
  EXPECT_EQ(std::ranges::count(without, usual), 0);
  made.id = RequestId{next_id_++};
  made.sampling.logit_bias = {{5000, 100.0F}};
  EXPECT_EQ(ask(made).tokens, Tokens(6, 5000));
  made.id = RequestId{next_id_++};
  made.sampling.logit_bias = {{49152, 1.0F}};
  EXPECT_EQ(engine_->submit(made, sink_).error().code, ErrorCode::kInvalidRequest);
}

TEST_F(EmbeddedEngineTest, AnInterruptedAnswerGoesOnAsIfNothingHadBeen) {
  for (const std::size_t parked_bytes : {std::size_t{1} << 26U, std::size_t{0}}) {
    open({.ctx = 512, .kv_cache_tokens = 1024, .running_max = 1, .parked_bytes = parked_bytes});
    auto low = request(words_->tokens(turn("Tell me about rivers.")), 40);
    low.ignore_eos = true;
    const Tokens want = ask(low).tokens;
    ASSERT_TRUE(engine_->verify_empty_after_clearing());
    low.id = RequestId{next_id_++};
    const RequestId id = submit(low);
    sink_->wait_tokens(id, 10);
    auto urgent = request(numbers(30, 3), 4);
    urgent.priority = 1;
    ask(urgent);
    EXPECT_EQ(sink_->peek(id).ends, 0);
    const Answer answer = sink_->wait(id);
    EXPECT_EQ(engine_->stats().preemptions, 1U);
    // What was parked comes back bit by bit; what is computed again comes in another shape, so its last bits may
    // differ.
    if (parked_bytes > 0) {
      EXPECT_EQ(answer.tokens, want);
    }
    EXPECT_EQ(answer.tokens.size(), 40U);
    EXPECT_TRUE(engine_->verify_empty_after_clearing());
  }
}

TEST_F(EmbeddedEngineTest, AnIdMayBeUsedAgainAtOnce) {
  open({.ctx = 512, .running_max = 2});
  for (int round = 0; round < 4; ++round) {
    auto made = request(numbers(16, 1 + round), 6);
    made.ignore_eos = true;
    const RequestId id = submit(made);
    // The next step makes its last token. Cancelled and submitted again meanwhile, the id is the new one's.
    sink_->wait_tokens(id, 5);
    engine_->cancel(id);
    auto again = made;
    again.max_tokens = 400;
    auto other = std::make_shared<Collector>();
    ASSERT_TRUE(engine_->submit(again, other).ok());
    other->wait_tokens(id, 2);
    EXPECT_FALSE(engine_->submit(again, other).ok()) << "it is running";
    engine_->cancel(id);
    engine_->wait_idle();
    EXPECT_LT(other->peek(id).tokens.size(), 400U) << "the cancel was for the new one";
    EXPECT_EQ(other->peek(id).ends, 0);
  }
}

TEST_F(EmbeddedEngineTest, RefusesAndReportsInWordsForTheirReaders) {
  open({.ctx = 512, .kv_cache_tokens = 1024, .running_max = 1, .waiting_max = 2});
  EXPECT_EQ(engine_->submit(request(numbers(500, 1), 13), sink_).error().code, ErrorCode::kContextLength);
  EXPECT_EQ(engine_->submit(request({-1}, 13), sink_).error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(engine_->submit(request({49152}, 13), sink_).error().code, ErrorCode::kInvalidRequest);

  auto endless = request(numbers(8, 1), 400);
  endless.ignore_eos = true;
  const RequestId running = submit(endless);
  sink_->wait_tokens(running, 1);
  submit(request(numbers(8, 2), 4));
  submit(request(numbers(8, 3), 4));
  const auto refused = engine_->submit(request(numbers(8, 4), 4), sink_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  // Destruction fails what is left.
  engine_.reset();
  EXPECT_EQ(sink_->wait(running).failed->error.code, ErrorCode::kUnavailable);

  const auto missing = EmbeddedEngine::load({.model_path = "/nowhere/x.gguf"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("/nowhere/x.gguf"), std::string::npos);
  const std::string broken = testing::TempDir() + "/broken.gguf";
  std::ofstream(broken) << "GGUF but not really, only some text";
  EXPECT_FALSE(EmbeddedEngine::load({.model_path = broken}).ok());
}

TEST_F(EmbeddedEngineTest, AContextBeyondTheTrainedOneWarns) {
  open({.ctx = 16384, .kv_cache_tokens = 16384});
  EXPECT_EQ(engine_->model().context_tokens, 16384U);
  EXPECT_EQ(engine_->trained_context_tokens(), 8192U);
  ASSERT_EQ(engine_->warnings().size(), 1U);
  EXPECT_NE(engine_->warnings()[0].find("YaRN"), std::string::npos);
  EXPECT_EQ(ask(turn("What is the capital of France?"), 8).tokens.size(), 7U);
}

}  // namespace
}  // namespace kvern::engine
