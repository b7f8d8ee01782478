#include "sim/sim_engine.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "sim/sim_model.h"

namespace kvern::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What a sink got for each request.
class Sink final : public engine::EventSink {
 public:
  struct Story {
    int accepted = 0;
    Tokens tokens;
    int ends = 0;
    std::optional<ErrorCode> failed;
  };
  void on_events(std::vector<engine::EngineEvent> events) override {
    for (const auto& event : events) {
      Story& story = stories[event.id.value];
      if (std::holds_alternative<engine::Accepted>(event.body)) ++story.accepted;
      if (const auto* output = std::get_if<engine::Output>(&event.body)) {
        story.tokens.insert(story.tokens.end(), output->tokens.begin(), output->tokens.end());
      }
      if (std::holds_alternative<engine::Finished>(event.body)) ++story.ends;
      if (const auto* failed = std::get_if<engine::Failed>(&event.body)) {
        ++story.ends;
        story.failed = failed->error.code;
      }
    }
  }
  std::map<std::uint64_t, Story> stories;
};

class SimEngineTest : public testing::TestWithParam<bool> {
 protected:
  SimEngineTest() : engine_(world_, "worker", options(), wire()) {}
  ~SimEngineTest() override { world_.clear(); }

  static engine::SchedulerOptions options() {
    return {.context_tokens = 256,
            .cells = 512,
            .sequences = 4,
            .batch_tokens = 64,
            .mixed_batch_tokens = 32,
            .waiting_max = 4};
  }
  WireOptions wire() const {
    WireOptions wire;
    wire.together = GetParam();
    wire.late_events = 1;
    return wire;
  }
  Result<void> ask(std::uint64_t id, std::uint32_t max_tokens) {
    engine::GenerateRequest request;
    request.id = RequestId{id};
    request.prompt = {static_cast<TokenId>(id), 2, 3, 4, 5};
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    return engine_.submit(std::move(request), sink_);
  }
  Tokens right(std::uint64_t id, std::size_t count) {
    ModelState state = kNothingRead;
    for (const TokenId token : {static_cast<TokenId>(id), 2, 3, 4, 5}) state = read(state, token);
    Tokens tokens;
    while (tokens.size() < count) {
      tokens.push_back(next_token(state, true));
      state = read(state, tokens.back());
    }
    return tokens;
  }
  void run(Duration time) { world_.run(world_.now() + time); }

  World world_{7, nullptr};
  SimEngine engine_;
  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

TEST_P(SimEngineTest, AnswersAreExactAndOrdered) {
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(ask(id, 20).ok());
  run(seconds(20));
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_EQ(sink_->stories[id].accepted, 1);
    EXPECT_EQ(sink_->stories[id].tokens, right(id, 20));
    EXPECT_EQ(sink_->stories[id].ends, 1);
    EXPECT_FALSE(sink_->stories[id].failed);
  }
  EXPECT_EQ(engine_.open_streams(), 0U);
}

TEST_P(SimEngineTest, ACancelFreesTheWorkerAndItsIdMayComeAgain) {
  ASSERT_TRUE(ask(1, 100).ok());
  run(milliseconds(300));
  engine_.cancel(RequestId{1});
  EXPECT_EQ(engine_.open_streams(), 0U);
  run(seconds(2));
  EXPECT_EQ(engine_.stats().running, 0U);
  sink_->stories.clear();
  ASSERT_TRUE(ask(1, 5).ok());
  run(seconds(5));
  EXPECT_EQ(sink_->stories[1].tokens, right(1, 5));
  EXPECT_EQ(sink_->stories[1].ends, 1);
}

TEST_P(SimEngineTest, ALoudCrashFailsStreamsAtOnceASilentOneByTheTimeout) {
  for (const bool loud : {true, false}) {
    sink_->stories.clear();
    ASSERT_TRUE(ask(1, 100).ok());
    run(milliseconds(300));
    engine_.crash(loud);
    run(seconds(1));
    EXPECT_EQ(sink_->stories[1].ends, loud ? 1 : 0);
    EXPECT_EQ(engine_.healthy(), !loud);
    EXPECT_EQ(ask(2, 5).ok(), !loud);  // nobody knows that it vanished
    run(seconds(61));
    EXPECT_EQ(sink_->stories[1].failed, loud ? ErrorCode::kUnavailable : ErrorCode::kTimeout);
    EXPECT_EQ(sink_->stories[1].ends, 1);
    engine_.restart();
    ASSERT_TRUE(ask(3, 5).ok());
    run(seconds(5));
    EXPECT_EQ(sink_->stories[3].tokens, right(3, 5));
    EXPECT_EQ(engine_.open_streams(), 0U);
  }
}

TEST_P(SimEngineTest, ACutStreamFailsAndWhatCameBeforeIsRight) {
  for (const bool loud : {true, false}) {
    sink_->stories.clear();
    ASSERT_TRUE(ask(1, 200).ok());
    run(milliseconds(500));
    ASSERT_TRUE(engine_.cut_one(loud));
    run(seconds(61));
    const auto& story = sink_->stories[1];
    EXPECT_EQ(story.failed, loud ? ErrorCode::kEngine : ErrorCode::kTimeout);
    EXPECT_EQ(story.ends, 1);
    EXPECT_EQ(story.tokens, right(1, story.tokens.size()));
    EXPECT_EQ(engine_.stats().running, 0U);
  }
  EXPECT_FALSE(engine_.cut_one(true));
}

TEST_P(SimEngineTest, AShortStallOnlyTakesTime) {
  ASSERT_TRUE(ask(1, 20).ok());
  run(milliseconds(100));
  engine_.worker().stall(seconds(5));
  EXPECT_FALSE(engine_.healthy());
  run(seconds(4));
  EXPECT_EQ(sink_->stories[1].ends, 0);
  run(seconds(5));
  EXPECT_EQ(sink_->stories[1].tokens, right(1, 20));
}

TEST_P(SimEngineTest, AFullQueueAndARefusalAreOverloads) {
  for (std::uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE(ask(id, 50).ok());
  run(seconds(60));
  int refused = 0;
  for (auto& [id, story] : sink_->stories) {
    EXPECT_EQ(story.ends, 1);
    refused += story.failed == ErrorCode::kOverloaded ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  engine_.refuse(seconds(1));
  const auto answer = ask(21, 5);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kOverloaded);
  engine_.heal();
  EXPECT_TRUE(ask(21, 5).ok());
}

INSTANTIATE_TEST_SUITE_P(Wires, SimEngineTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Together" : "Apart"; });

}  // namespace
}  // namespace kvern::sim
