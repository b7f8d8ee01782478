#include "engine/embedded/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/rng.h"
#include "engine/embedded/fake_backend.h"

namespace kvern::engine {
namespace {

class NullSink final : public EventSink {
 public:
  void on_events(std::vector<EngineEvent>) override {}
};

/// What a request got, in the order it got it.
struct Story {
  std::optional<Accepted> accepted;
  Tokens tokens;
  std::optional<Finished> finished;
  std::optional<Failed> failed;
};

Tokens counting(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// What the fake model answers when nothing disturbs it.
Tokens expected_answer(Tokens prompt, std::uint32_t count) {
  const std::size_t before = prompt.size();
  for (std::uint32_t i = 0; i < count; ++i) prompt.push_back(FakeBackend::next_token(prompt));
  return {prompt.begin() + static_cast<std::ptrdiff_t>(before), prompt.end()};
}

class SchedulerTest : public testing::Test {
 protected:
  void open(SchedulerOptions options) {
    options_ = options;
    backend_ = std::make_unique<FakeBackend>(options.cells);
    scheduler_ = std::make_unique<Scheduler>(options, *backend_);
  }
  void SetUp() override {
    open({.context_tokens = 512,
          .cells = 1024,
          .sequences = 16,
          .batch_tokens = 64,
          .mixed_batch_tokens = 32,
          .waiting_max = 32});
  }

  static GenerateRequest request(std::uint64_t id, Tokens prompt, std::uint32_t max_tokens) {
    GenerateRequest made;
    made.id = RequestId{id};
    made.prompt = std::move(prompt);
    made.max_tokens = max_tokens;
    return made;
  }
  Result<void> submit(GenerateRequest made) { return scheduler_->submit(std::move(made), sink_); }
  void ask(std::uint64_t id, Tokens prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(submit(request(id, std::move(prompt), max_tokens)).ok());
  }
  void step() {
    std::vector<Outgoing> out;
    ASSERT_TRUE(scheduler_->step(out));
    take(out);
    scheduler_->check();
  }
  void take(const std::vector<Outgoing>& out) {
    for (const Outgoing& each : out) {
      Story& story = stories_[each.event.id.value];
      ASSERT_FALSE(story.finished || story.failed) << "an event after the end";
      if (const auto* accepted = std::get_if<Accepted>(&each.event.body)) {
        ASSERT_FALSE(story.accepted);
        story.accepted = *accepted;
      } else if (const auto* output = std::get_if<Output>(&each.event.body)) {
        ASSERT_TRUE(story.accepted);
        story.tokens.insert(story.tokens.end(), output->tokens.begin(), output->tokens.end());
      } else if (const auto* finished = std::get_if<Finished>(&each.event.body)) {
        story.finished = *finished;
      } else {
        story.failed = std::get<Failed>(each.event.body);
      }
    }
  }
  void run_dry() {
    for (int i = 0; i < 10000 && !scheduler_->idle(); ++i) step();
    ASSERT_TRUE(scheduler_->idle());
  }
  std::uint32_t cached(std::uint64_t id) { return stories_[id].accepted->cached_tokens.value(); }
  void expect_nothing_left() {
    scheduler_->clear_cache();
    scheduler_->check();
    const EngineStats stats = scheduler_->stats();
    EXPECT_EQ(stats.cells_used, 0U);
    EXPECT_EQ(stats.cache_blocks, 0U);
    EXPECT_EQ(stats.sequences_used, 0U);
    EXPECT_EQ(backend_->cells_used(), 0U);
  }

  SchedulerOptions options_;
  std::unique_ptr<FakeBackend> backend_;
  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<EventSink> sink_ = std::make_shared<NullSink>();
  std::map<std::uint64_t, Story> stories_;
};

TEST_F(SchedulerTest, AnswersTokenByToken) {
  ask(1, counting(10, 100), 20);
  run_dry();
  EXPECT_EQ(stories_[1].accepted->prompt_tokens, 100U);
  EXPECT_EQ(cached(1), 0U);
  EXPECT_EQ(stories_[1].tokens, expected_answer(counting(10, 100), 20));
  EXPECT_EQ(stories_[1].finished->cause, StopCause::kLength);
  EXPECT_EQ(stories_[1].finished->completion_tokens, 20U);
  // 100 prompt tokens and 19 of the answer; the last is never run.
  EXPECT_EQ(backend_->tokens_computed, 119U);
  EXPECT_EQ(scheduler_->stats().computed_tokens, 100U);
  EXPECT_EQ(scheduler_->stats().generated_tokens, 20U);
  expect_nothing_left();
}

TEST_F(SchedulerTest, TheNextTurnComputesOnlyWhatIsNew) {
  ask(1, counting(10, 100), 20);
  run_dry();
  Tokens second = counting(10, 100);
  const Tokens answer = expected_answer(second, 20);
  second.insert(second.end(), answer.begin(), answer.end());
  const Tokens more = counting(9000, 10);
  second.insert(second.end(), more.begin(), more.end());
  ask(2, second, 5);
  run_dry();
  EXPECT_EQ(cached(2), 112U);  // 119 tokens were run: 7 blocks, prompt and answer alike
  EXPECT_EQ(stories_[2].tokens, expected_answer(second, 5));
  EXPECT_EQ(scheduler_->stats().computed_tokens, 100U + 130U - 112U);
}

TEST_F(SchedulerTest, ComputesAtLeastTheLastPromptToken) {
  ask(1, counting(10, 64), 1);
  run_dry();
  ask(2, counting(10, 64), 3);
  run_dry();
  EXPECT_EQ(cached(2), 48U);
  EXPECT_EQ(stories_[2].tokens, expected_answer(counting(10, 64), 3));
}

TEST_F(SchedulerTest, ASharedPrefixInFlightIsComputedOnce) {
  for (std::uint64_t id = 0; id < 8; ++id) {
    Tokens prompt = counting(10, 320);
    prompt.push_back(static_cast<TokenId>(1000 + id));
    ask(id, prompt, 4);
  }
  step();
  EXPECT_EQ(scheduler_->stats().running, 1U);
  EXPECT_EQ(scheduler_->stats().waiting, 7U);
  run_dry();
  EXPECT_EQ(scheduler_->stats().computed_tokens, 321U + 7U);
  for (std::uint64_t id = 1; id < 8; ++id) {
    EXPECT_EQ(cached(id), 320U);
    Tokens prompt = counting(10, 320);
    prompt.push_back(static_cast<TokenId>(1000 + id));
    EXPECT_EQ(stories_[id].tokens, expected_answer(prompt, 4));
  }
}

TEST_F(SchedulerTest, OthersPassThoseWhoWaitForBlocks) {
  ask(1, counting(10, 400), 4);
  ask(2, counting(10, 400), 4);
  ask(3, counting(5000, 20), 4);
  step();
  EXPECT_FALSE(stories_[2].accepted);
  EXPECT_TRUE(stories_[3].accepted);
  run_dry();
  EXPECT_EQ(cached(2), 384U);
}

TEST_F(SchedulerTest, WhoWaitsForACancelledOneComputesItself) {
  ask(1, counting(10, 400), 4);
  ask(2, counting(10, 400), 4);
  step();
  scheduler_->cancel(RequestId{1});
  run_dry();
  EXPECT_EQ(cached(2), 64U);  // the blocks of the one step made
  EXPECT_EQ(stories_[2].tokens, expected_answer(counting(10, 400), 4));
  expect_nothing_left();
}

TEST_F(SchedulerTest, NamespacesShareNothing) {
  auto mine = request(1, counting(10, 100), 2);
  mine.cache_namespace = "alice";
  auto other = request(2, counting(10, 100), 2);
  other.cache_namespace = "bob";
  ASSERT_TRUE(submit(mine).ok());
  ASSERT_TRUE(submit(other).ok());
  run_dry();
  mine.id = RequestId{3};
  ASSERT_TRUE(submit(mine).ok());
  run_dry();
  EXPECT_EQ(cached(2), 0U);
  EXPECT_EQ(cached(3), 96U);
}

TEST_F(SchedulerTest, EqualBlocksComputedTwiceAreStoredOnce) {
  // No full block in either prompt, so none waits for the other; the answers are the same.
  ask(1, counting(10, 10), 60);
  ask(2, counting(10, 10), 60);
  run_dry();
  EXPECT_EQ(stories_[1].tokens, stories_[2].tokens);
  EXPECT_EQ(scheduler_->stats().cache_blocks, 4U);
  EXPECT_EQ(backend_->cells_used(), 64U);
  expect_nothing_left();
}

TEST_F(SchedulerTest, DecodesComeFirstAndALongPrefillIsCut) {
  ask(1, counting(10, 20), 50);
  step();
  ask(2, counting(5000, 300), 4);
  step();
  const auto& batch = backend_->batches.back();
  EXPECT_EQ(batch.size(), 32U);
  EXPECT_EQ(batch.front().position, 20);
  EXPECT_EQ(stories_[1].tokens.size(), 2U);
  run_dry();
  EXPECT_EQ(stories_[2].tokens, expected_answer(counting(5000, 300), 4));
}

TEST_F(SchedulerTest, AShortPromptDoesNotWaitForALongOne) {
  ask(1, counting(10, 400), 4);
  ask(2, counting(5000, 20), 4);
  step();
  EXPECT_EQ(stories_[2].tokens.size(), 1U);
  EXPECT_TRUE(stories_[1].tokens.empty());
}

TEST_F(SchedulerTest, CancellationFreesEverythingAtOnce) {
  ask(1, counting(10, 200), 50);  // in prefill
  ask(2, counting(5000, 8), 50);  // decoding after the first step
  ask(3, counting(10, 200), 50);  // waiting for the blocks of 1
  step();
  EXPECT_TRUE(scheduler_->cancel(RequestId{3}));
  EXPECT_TRUE(scheduler_->cancel(RequestId{1}));
  EXPECT_TRUE(scheduler_->cancel(RequestId{2}));
  EXPECT_FALSE(scheduler_->cancel(RequestId{2}));
  scheduler_->check();
  EXPECT_TRUE(scheduler_->idle());
  expect_nothing_left();
}

TEST_F(SchedulerTest, EvictsTheLeastRecentlyUsedBlocks) {
  // 1024 cells: 16 prompts of 64 fill them.
  for (std::uint64_t id = 0; id < 16; ++id) {
    ask(id, counting(static_cast<TokenId>(1000 * (id + 1)), 64), 1);
    run_dry();
  }
  EXPECT_EQ(scheduler_->stats().cells_used, 1024U);
  ask(100, counting(1000, 64), 1);  // use the oldest: now the second is the oldest
  run_dry();
  ask(101, counting(90000 % FakeBackend::kVocabulary, 64), 1);
  run_dry();
  EXPECT_EQ(cached(100), 48U);
  ask(102, counting(1000, 64), 1);
  run_dry();
  EXPECT_EQ(cached(102), 48U);
  ask(103, counting(2000, 64), 1);
  run_dry();
  EXPECT_EQ(cached(103), 0U);
  EXPECT_LE(scheduler_->stats().cells_used, 1024U);
  EXPECT_GT(scheduler_->stats().evicted_blocks, 0U);
}

TEST_F(SchedulerTest, PreemptionLosesAndDoublesNoToken) {
  open({.context_tokens = 256,
        .cells = 256,
        .sequences = 4,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  // Each fits while its answer is short; three answers of 150 tokens do not.
  for (std::uint64_t id = 0; id < 3; ++id) ask(id, counting(static_cast<TokenId>(1000 * (id + 1)), 40), 150);
  run_dry();
  EXPECT_GT(scheduler_->stats().preemptions, 0U);
  for (std::uint64_t id = 0; id < 3; ++id) {
    const Tokens prompt = counting(static_cast<TokenId>(1000 * (id + 1)), 40);
    EXPECT_EQ(stories_[id].tokens, expected_answer(prompt, 150)) << id;
    EXPECT_EQ(stories_[id].finished->completion_tokens, 150U);
  }
  EXPECT_EQ(scheduler_->stats().prompt_tokens, 120U);
  EXPECT_EQ(scheduler_->stats().generated_tokens, 450U);
  expect_nothing_left();
}

TEST_F(SchedulerTest, ThoseOfLowestPriorityArePreemptedFirst) {
  open({.context_tokens = 256,
        .cells = 256,
        .sequences = 4,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  auto low = request(1, counting(1000, 40), 150);
  auto high = request(2, counting(2000, 40), 150);
  high.priority = 1;
  ASSERT_TRUE(submit(low).ok());
  step();
  ASSERT_TRUE(submit(high).ok());
  while (!stories_[2].finished) step();
  EXPECT_FALSE(stories_[1].finished);
  EXPECT_GT(scheduler_->stats().preemptions, 0U);
  run_dry();
  EXPECT_EQ(stories_[1].tokens, expected_answer(counting(1000, 40), 150));
}

TEST_F(SchedulerTest, AnUrgentRequestDoesNotWaitForALesserOnesSequence) {
  open({.context_tokens = 256,
        .cells = 1024,
        .sequences = 2,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  ask(1, counting(1000, 20), 50);
  ask(2, counting(2000, 20), 50);
  for (int i = 0; i < 5; ++i) step();
  auto urgent = request(3, counting(3000, 20), 5);
  urgent.priority = 1;
  ASSERT_TRUE(submit(urgent).ok());
  step();
  EXPECT_TRUE(stories_[3].accepted.has_value());
  EXPECT_EQ(scheduler_->stats().preemptions, 1U);
  EXPECT_EQ(scheduler_->stats().waiting, 1U);
  const std::size_t second = stories_[2].tokens.size();
  while (!stories_[3].finished) step();
  EXPECT_EQ(stories_[2].tokens.size(), second) << "of equal ones the youngest yields";
  EXPECT_GT(stories_[1].tokens.size(), second);
  // Equals wait their turn.
  auto equal = request(4, counting(4000, 20), 5);
  ASSERT_TRUE(submit(equal).ok());
  step();
  EXPECT_FALSE(stories_[4].accepted.has_value());
  run_dry();
  EXPECT_EQ(scheduler_->stats().preemptions, 1U);
  EXPECT_EQ(stories_[2].tokens, expected_answer(counting(2000, 20), 50));
}

TEST_F(SchedulerTest, AnUrgentRequestDoesNotWaitForRoom) {
  open({.context_tokens = 256,
        .cells = 256,
        .sequences = 8,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    auto made = request(id, counting(static_cast<TokenId>(1000 * id), 60), 10);
    made.priority = id == 2 ? 0 : 1;
    ASSERT_TRUE(submit(made).ok());
  }
  for (int i = 0; i < 3; ++i) step();
  // 180 of 256 cells are promised; this one needs as much as two of them have.
  auto urgent = request(4, counting(4000, 150), 4);
  urgent.priority = 2;
  ASSERT_TRUE(submit(urgent).ok());
  step();
  EXPECT_TRUE(stories_[4].accepted.has_value());
  EXPECT_EQ(scheduler_->stats().preemptions, 2U) << "the least urgent, then the youngest; the third goes on";
  EXPECT_EQ(scheduler_->stats().running, 2U);
  run_dry();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(stories_[id].tokens, expected_answer(counting(static_cast<TokenId>(1000 * id), 60), 10));
  }
}

TEST_F(SchedulerTest, NobodyIsPreemptedInVain) {
  open({.context_tokens = 256,
        .cells = 256,
        .sequences = 8,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  auto big = request(1, counting(1000, 180), 40);
  big.priority = 3;
  ASSERT_TRUE(submit(big).ok());
  ask(2, counting(2000, 20), 40);
  for (int i = 0; i < 8; ++i) step();
  auto urgent = request(3, counting(3000, 100), 4);  // more than all but the big one have
  urgent.priority = 2;
  ASSERT_TRUE(submit(urgent).ok());
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(scheduler_->stats().preemptions, 0U);
  EXPECT_EQ(scheduler_->stats().waiting, 1U);
  run_dry();
  EXPECT_EQ(stories_[3].tokens, expected_answer(counting(3000, 100), 4));
}

TEST_F(SchedulerTest, WhoComputesForAnUrgentOneIsNotPreemptedByLesserOnes) {
  open({.context_tokens = 512,
        .cells = 1024,
        .sequences = 2,
        .batch_tokens = 32,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  ask(1, counting(1000, 200), 4);
  step();
  auto urgent = request(2, counting(1000, 200), 4);  // waits for the blocks of the first
  urgent.priority = 5;
  ASSERT_TRUE(submit(urgent).ok());
  ask(3, counting(3000, 200), 4);
  step();
  auto middle = request(4, counting(4000, 20), 4);
  middle.priority = 3;
  ASSERT_TRUE(submit(middle).ok());
  step();
  EXPECT_TRUE(stories_[4].accepted.has_value());
  EXPECT_EQ(scheduler_->stats().preemptions, 1U);
  // The third yielded, not the first: the urgent one gets its blocks in a few steps.
  for (int i = 0; i < 8; ++i) step();
  EXPECT_TRUE(stories_[2].accepted.has_value());
  EXPECT_EQ(cached(2), 192U);
  run_dry();
  EXPECT_EQ(stories_[3].tokens, expected_answer(counting(3000, 200), 4));
}

TEST_F(SchedulerTest, ABoostEndsWithTheOneWhoWaited) {
  open({.context_tokens = 512,
        .cells = 1024,
        .sequences = 1,
        .batch_tokens = 32,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  ask(1, counting(1000, 300), 4);
  step();
  auto urgent = request(2, counting(1000, 300), 4);
  urgent.priority = 5;
  ASSERT_TRUE(submit(urgent).ok());
  step();
  auto middle = request(3, counting(3000, 20), 2);
  middle.priority = 3;
  ASSERT_TRUE(submit(middle).ok());
  step();
  EXPECT_FALSE(stories_[3].accepted.has_value());
  EXPECT_TRUE(scheduler_->cancel(RequestId{2}));
  step();
  EXPECT_TRUE(stories_[3].accepted.has_value());
  run_dry();
}

TEST_F(SchedulerTest, ParkedStateIsNotComputedAgain) {
  struct Case {
    const char* what;
    bool reuse;
    std::size_t bytes;
    bool restore_fails;
    std::uint64_t restores;
  };
  for (const Case& each :
       {Case{"blocks and a parked rest", true, 1U << 20U, false, 1},
        Case{"everything parked", false, 1U << 20U, false, 1}, Case{"no room to park", false, 64, false, 0},
        Case{"parking off", true, 0, false, 0}, Case{"it cannot be restored", false, 1U << 20U, true, 0}}) {
    SCOPED_TRACE(each.what);
    open({.context_tokens = 256,
          .cells = 512,
          .sequences = 1,
          .batch_tokens = 64,
          .mixed_batch_tokens = 32,
          .waiting_max = 8,
          .reuse_blocks = each.reuse,
          .parked_bytes_max = each.bytes});
    stories_.clear();
    backend_->restore_fails = each.restore_fails;
    backend_->forgets_parts = each.reuse;
    ask(1, counting(1000, 40), 30);
    while (stories_[1].tokens.size() < 6) step();
    auto urgent = request(2, counting(2000, 40), 4);
    urgent.priority = 1;
    ASSERT_TRUE(submit(urgent).ok());
    step();
    EXPECT_EQ(scheduler_->parked_bytes() > 0, each.bytes > 64);
    run_dry();
    EXPECT_EQ(scheduler_->parked_bytes(), 0U);
    EXPECT_EQ(backend_->restores, each.restores);
    EXPECT_EQ(stories_[1].tokens, expected_answer(counting(1000, 40), 30));
    // 45 tokens were computed when it was preempted, 32 of them in blocks.
    const std::uint64_t again = each.restores > 0 ? 0 : each.reuse ? 13 : 45;
    EXPECT_EQ(backend_->tokens_computed, 69 + 43 + again);
    expect_nothing_left();
  }
}

TEST_F(SchedulerTest, ParkedStateEndsWithItsRequest) {
  open({.context_tokens = 256,
        .cells = 512,
        .sequences = 1,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8,
        .parked_bytes_max = 1U << 20U});
  ask(1, counting(1000, 40), 30);
  step();
  auto urgent = request(2, counting(2000, 40), 30);
  urgent.priority = 1;
  ASSERT_TRUE(submit(urgent).ok());
  step();
  EXPECT_GT(scheduler_->parked_bytes(), 0U);
  EXPECT_TRUE(scheduler_->cancel(RequestId{1}));
  EXPECT_EQ(scheduler_->parked_bytes(), 0U);
  run_dry();
  expect_nothing_left();
}

TEST_F(SchedulerTest, APreemptedRequestIsNotResumedOnlyToBePreemptedAgain) {
  open({.context_tokens = 256,
        .cells = 256,
        .sequences = 4,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  for (std::uint64_t id = 0; id < 4; ++id) ask(id, counting(static_cast<TokenId>(1000 * (id + 1)), 40), 150);
  run_dry();
  // 760 tokens through 256 cells: each of them has to step back, but not over and over.
  EXPECT_GT(scheduler_->stats().preemptions, 0U);
  EXPECT_LE(scheduler_->stats().preemptions, 6U);
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(stories_[id].tokens, expected_answer(counting(static_cast<TokenId>(1000 * (id + 1)), 40), 150));
  }
}

TEST_F(SchedulerTest, CopiesOfAPromptComputeOnlyItsLastPart) {
  // What an n > 1 becomes: the same prompt four times, together.
  for (std::uint64_t id = 1; id <= 4; ++id) ask(id, counting(1000, 200), 10);
  run_dry();
  EXPECT_EQ(scheduler_->stats().computed_tokens, 200U + 3 * 8);
  EXPECT_EQ(cached(1), 0U);
  for (std::uint64_t id = 2; id <= 4; ++id) EXPECT_EQ(cached(id), 192U);
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(stories_[id].tokens, expected_answer(counting(1000, 200), 10));
}

TEST_F(SchedulerTest, OfThoseWhoWaitedForACancelledOneTheFirstComputesForTheOthers) {
  for (std::uint64_t id = 1; id <= 3; ++id) ask(id, counting(1000, 400), 4);
  step();
  EXPECT_EQ(scheduler_->stats().waiting, 2U);
  EXPECT_TRUE(scheduler_->cancel(RequestId{1}));
  step();
  EXPECT_TRUE(stories_[2].accepted.has_value());
  EXPECT_FALSE(stories_[3].accepted.has_value());
  run_dry();
  EXPECT_EQ(cached(3), 384U);
  EXPECT_EQ(backend_->tokens_computed, 400U + 3 + 16 + 3);  // 64 of the first serve the second
}

TEST_F(SchedulerTest, LogProbabilitiesComeWithTheirTokens) {
  auto made = request(1, counting(1000, 20), 5);
  made.logprobs = 0;
  ASSERT_TRUE(submit(made).ok());
  std::vector<Outgoing> out;
  while (!scheduler_->idle()) ASSERT_TRUE(scheduler_->step(out));
  std::size_t tokens = 0;
  for (const Outgoing& each : out) {
    const auto* output = std::get_if<Output>(&each.event.body);
    if (output == nullptr) continue;
    ASSERT_EQ(output->logprobs.size(), output->tokens.size());
    EXPECT_EQ(output->logprobs[0].logprob, -static_cast<float>(output->tokens[0]));
    tokens += output->tokens.size();
  }
  EXPECT_EQ(tokens, 5U);
}

TEST_F(SchedulerTest, ARequestAsLongAsThePoolFinishes) {
  open({.context_tokens = 100,
        .cells = 100,
        .sequences = 4,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 8});
  ask(1, counting(1000, 60), 1);
  run_dry();
  ask(2, counting(2000, 50), 50);
  ask(3, counting(3000, 50), 50);
  run_dry();
  EXPECT_EQ(stories_[2].tokens, expected_answer(counting(2000, 50), 50));
  EXPECT_EQ(stories_[3].tokens, expected_answer(counting(3000, 50), 50));
}

TEST_F(SchedulerTest, TheQueueIsBoundedAndOrdered) {
  open({.context_tokens = 64,
        .cells = 64,
        .sequences = 1,
        .batch_tokens = 64,
        .mixed_batch_tokens = 32,
        .waiting_max = 3});
  ask(1, counting(1000, 8), 4);
  step();
  ask(2, counting(2000, 8), 4);
  ask(3, counting(3000, 8), 4);
  auto urgent = request(4, counting(4000, 8), 4);
  urgent.priority = 5;
  ASSERT_TRUE(submit(urgent).ok());
  const auto refused = submit(request(5, counting(5000, 8), 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  while (!stories_[4].finished) step();
  EXPECT_FALSE(stories_[2].accepted);
  while (!stories_[2].finished) step();
  EXPECT_FALSE(stories_[3].accepted);
  run_dry();
}

TEST_F(SchedulerTest, RefusesWhatCanNeverRun) {
  EXPECT_EQ(submit(request(1, counting(0, 500), 13)).error().code, ErrorCode::kContextLength);
  EXPECT_EQ(submit(request(1, {}, 13)).error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(submit(request(1, {1}, 0)).error().code, ErrorCode::kInvalidRequest);
  EXPECT_TRUE(submit(request(1, counting(0, 500), 12)).ok());
  EXPECT_FALSE(submit(request(1, counting(0, 5), 12)).ok());  // the id is taken
  run_dry();
}

TEST_F(SchedulerTest, StopsForItsReasons) {
  backend_->answers_at[12] = FakeBackend::kEnd;
  ask(1, counting(10, 10), 20);
  run_dry();
  EXPECT_EQ(stories_[1].tokens.size(), 2U);
  EXPECT_EQ(stories_[1].finished->cause, StopCause::kEos);
  EXPECT_EQ(stories_[1].finished->completion_tokens, 3U);  // the end token counts

  auto stopping = request(2, counting(10, 10), 20);
  stopping.stop_token_ids = {expected_answer(counting(10, 10), 2)[1]};
  ASSERT_TRUE(submit(stopping).ok());
  run_dry();
  EXPECT_EQ(stories_[2].tokens.size(), 1U);
  EXPECT_EQ(stories_[2].finished->cause, StopCause::kStopToken);

  auto at_least = request(3, counting(10, 10), 20);
  at_least.min_tokens = 5;
  ASSERT_TRUE(submit(at_least).ok());
  run_dry();
  EXPECT_EQ(stories_[3].tokens.size(), 20U);
  EXPECT_EQ(stories_[3].tokens[2], FakeBackend::kEnd + 1);
}

TEST_F(SchedulerTest, AFailedDecodeFailsOnlyTheOneConcerned) {
  const TokenId poison = 4242;
  backend_->fails = [&](std::span<const BatchToken> batch) {
    return std::ranges::any_of(batch, [&](const BatchToken& token) { return token.token == poison; });
  };
  ask(1, counting(10, 20), 10);
  ask(2, {1, 2, poison, 3}, 10);
  ask(3, counting(500, 20), 10);
  run_dry();
  EXPECT_EQ(stories_[2].failed->error.code, ErrorCode::kEngine);
  EXPECT_EQ(stories_[1].tokens, expected_answer(counting(10, 20), 10));
  EXPECT_EQ(stories_[3].tokens, expected_answer(counting(500, 20), 10));
  expect_nothing_left();
}

TEST_F(SchedulerTest, WorksWithoutBlocks) {
  options_.reuse_blocks = false;
  open(options_);
  backend_->forgets_parts = false;
  backend_->counts_cells = false;
  ask(1, counting(10, 100), 10);
  ask(2, counting(10, 100), 10);
  run_dry();
  EXPECT_EQ(stories_[1].tokens, expected_answer(counting(10, 100), 10));
  EXPECT_EQ(stories_[2].tokens, stories_[1].tokens);
  EXPECT_FALSE(stories_[2].accepted->cached_tokens.has_value());
  EXPECT_EQ(scheduler_->stats().cells_used, 0U);
}

TEST_F(SchedulerTest, FailAllEndsEverybody) {
  ask(1, counting(10, 100), 10);
  ask(2, counting(10, 100), 10);
  step();
  std::vector<Outgoing> out;
  scheduler_->fail_all(fail(ErrorCode::kUnavailable, "stopping"), out);
  take(out);
  EXPECT_TRUE(stories_[1].failed && stories_[2].failed);
  EXPECT_TRUE(scheduler_->idle());
  expect_nothing_left();
}

// Everything at once: prompts with shared beginnings, priorities, namespaces, cancels, failures, a pool far too small.
TEST_F(SchedulerTest, StaysExactUnderRandomLoad) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto cells = static_cast<std::uint32_t>(96 + rng.below(300));
    open({.context_tokens = 96,
          .cells = cells,
          .sequences = static_cast<std::uint32_t>(1 + rng.below(8)),
          .batch_tokens = 32,
          .mixed_batch_tokens = static_cast<std::uint32_t>(4 + rng.below(28)),
          .waiting_max = 20,
          .block_tokens = static_cast<std::uint32_t>(rng.below(2) == 0 ? 16 : 4),
          .reuse_blocks = seed % 5 != 0,
          .parked_bytes_max = rng.below(3) * 200});
    backend_->restore_fails = rng.below(4) == 0;
    stories_.clear();
    std::map<std::uint64_t, GenerateRequest> live;
    std::uint64_t next_id = 1;
    std::uint64_t failing_in = 0;
    backend_->fails = [&](std::span<const BatchToken>) { return failing_in > 0 && --failing_in == 0; };
    const auto one_step = [&] {
      step();
      for (auto each = live.begin(); each != live.end();) {
        const Story& story = stories_[each->first];
        if (story.finished) {
          const GenerateRequest& asked = each->second;
          ASSERT_EQ(story.tokens, expected_answer(asked.prompt, asked.max_tokens));
          ASSERT_EQ(story.finished->completion_tokens, asked.max_tokens);
        }
        each = story.finished || story.failed ? live.erase(each) : std::next(each);
      }
    };
    for (int round = 0; round < 150; ++round) {
      if (rng.below(2) == 0) {
        Tokens prompt = counting(static_cast<TokenId>(1000 * rng.below(3)), 1 + rng.below(60));
        const Tokens own = counting(static_cast<TokenId>(20000 + rng.below(4) * 100), rng.below(12));
        prompt.insert(prompt.end(), own.begin(), own.end());
        auto made = request(next_id, prompt, static_cast<std::uint32_t>(1 + rng.below(20)));
        made.priority = static_cast<std::int32_t>(rng.below(3));
        if (rng.below(4) == 0) made.cache_namespace = "other";
        if (submit(made).ok()) live.emplace(next_id, made);
        ++next_id;
      }
      if (rng.below(8) == 0 && !live.empty()) {
        const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng.below(live.size())));
        EXPECT_TRUE(scheduler_->cancel(RequestId{victim->first}));
        scheduler_->check();
        live.erase(victim);
      }
      if (rng.below(30) == 0) failing_in = 1 + rng.below(3);
      one_step();
      if (HasFatalFailure()) return;
    }
    for (int i = 0; i < 5000 && !scheduler_->idle(); ++i) one_step();
    ASSERT_TRUE(scheduler_->idle());
    ASSERT_TRUE(live.empty());
    expect_nothing_left();
  }
}

}  // namespace
}  // namespace kvern::engine
