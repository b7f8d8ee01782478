#include "engine/scripted/scripted_engine.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

namespace kvern::engine {
namespace {

/// Collects events and lets a test wait for the end of a request.
class Collector final : public EventSink {
 public:
  void on_events(std::vector<EngineEvent> events) override {
    {
      const std::lock_guard lock(mutex_);
      ++batches_;
      for (auto& event : events) {
        if (!std::holds_alternative<Accepted>(event.body) && !std::holds_alternative<Output>(event.body)) ++ended_;
        events_.push_back(std::move(event));
      }
    }
    changed_.notify_all();
  }

  std::vector<EngineEvent> wait_for_ends(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_ >= count; }));
    return events_;
  }

  std::size_t batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EngineEvent> events_;
  std::size_t ended_ = 0;
  std::size_t batches_ = 0;
};

std::unique_ptr<Engine> engine_of(std::string_view script) {
  ScriptedOptions options;
  options.model = {"scripted", 4096, 256};
  options.encode = [](std::string_view text) { return Tokens(text.begin(), text.end()); };  // one token a byte
  auto lines = parse_script(script);
  EXPECT_TRUE(lines.ok());
  return make_scripted_engine(std::move(options), std::move(*lines));
}

GenerateRequest request(std::uint64_t id, std::string prompt, std::uint32_t max_tokens = 100) {
  GenerateRequest generate;
  generate.id = RequestId{id};
  generate.prompt = Tokens(prompt.size(), 1);
  generate.prompt_text = std::move(prompt);
  generate.max_tokens = max_tokens;
  return generate;
}

std::string text_of(const std::vector<EngineEvent>& events) {
  std::string text;
  for (const auto& event : events) {
    if (const auto* output = std::get_if<Output>(&event.body)) {
      text += output->text;
      for (const TokenId token : output->tokens) text += static_cast<char>(token);
    }
  }
  return text;
}

TEST(ScriptedEngine, AnswersOneEventAToken) {
  const auto engine = engine_of(R"({"text":"hello"})");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "hi"), sink).ok());
  const auto events = sink->wait_for_ends(1);
  ASSERT_EQ(events.size(), 7U);  // accepted, five tokens, finished
  EXPECT_EQ(std::get<Accepted>(events[0].body).prompt_tokens, 2U);
  EXPECT_EQ(text_of(events), "hello");
  EXPECT_EQ(std::get<Finished>(events[6].body).completion_tokens, 5U);
}

TEST(ScriptedEngine, MaxTokensAndStopIdsCut) {
  const auto engine = engine_of("{\"text\":\"hello\"}\n{\"text\":\"hello\"}");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "a", 3), sink).ok());
  auto stop = request(2, "a");
  stop.stop_token_ids = {'o'};
  sink->wait_for_ends(1);
  ASSERT_TRUE(engine->submit(std::move(stop), sink).ok());
  const auto events = sink->wait_for_ends(2);
  EXPECT_EQ(text_of(events), "helhell");
  EXPECT_EQ(std::get<Finished>(events.back().body).cause, StopCause::kStopToken);
}

TEST(ScriptedEngine, LogprobsComeWhenAskedFor) {
  const auto engine = engine_of(
      R"({"text":"abc","repeat":true,"logprobs":[{"logprob":-0.5,"top":[[97,-0.5],[98,-1]]},{"logprob":-2}]})");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "x"), sink).ok());
  for (const auto& event : sink->wait_for_ends(1)) {
    const auto* output = std::get_if<Output>(&event.body);
    EXPECT_TRUE(output == nullptr || output->logprobs.empty());
  }
  auto asked = request(2, "x");
  asked.logprobs = 1;
  ASSERT_TRUE(engine->submit(std::move(asked), sink).ok());
  std::vector<TokenLogprob> got;
  for (const auto& event : sink->wait_for_ends(2)) {
    const auto* output = std::get_if<Output>(&event.body);
    if (output != nullptr && event.id == RequestId{2}) got.push_back(output->logprobs.at(0));
  }
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].top, (std::vector<std::pair<TokenId, float>>{{97, -0.5F}})) << "cut to what was asked for";
  EXPECT_EQ(got[2].logprob, -2.0F) << "the last entry stands for the rest";
}

TEST(ScriptedEngine, ExhaustedScriptFails) {
  const auto engine = engine_of("");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "a"), sink).ok());
  const auto events = sink->wait_for_ends(1);
  EXPECT_EQ(std::get<Failed>(events[0].body).error.message, "script exhausted");
}

TEST(ScriptedEngine, OverloadedRefusesOnceAndNoEventFollows) {
  const auto engine = engine_of("{\"finish\":\"overloaded\"}\n{\"text\":\"hello\"}");
  const auto sink = std::make_shared<Collector>();
  const auto refused = engine->submit(request(1, "a"), sink);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  ASSERT_TRUE(engine->submit(request(1, "a"), sink).ok());
  EXPECT_EQ(text_of(sink->wait_for_ends(1)), "hello");
}

TEST(ScriptedEngine, ErrorAndDieBreakOffAfterTheText) {
  const auto engine =
      engine_of("{\"chunks\":[\"ab\",\"c\"],\"finish\":\"error\"}\n{\"text\":\"d\",\"finish\":\"die\"}");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "a"), sink).ok());
  sink->wait_for_ends(1);
  ASSERT_TRUE(engine->submit(request(2, "a"), sink).ok());
  const auto events = sink->wait_for_ends(2);
  EXPECT_EQ(text_of(events), "abcd");
  EXPECT_EQ(std::get<Failed>(events.back().body).error.code, ErrorCode::kUnavailable);
}

TEST(ScriptedEngine, CancelEndsSilentlyAndFreesThePlace) {
  const auto engine = engine_of(R"({"text":"hello","ttft_ms":3600000,"repeat":true})");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "a"), sink).ok());
  EXPECT_EQ(engine->stats().running, 1U);
  engine->cancel(RequestId{1});
  engine->cancel(RequestId{99});
  EXPECT_EQ(engine->stats().running, 0U);
  EXPECT_EQ(sink->batches(), 0U);
}

TEST(ScriptedEngine, AnIdMayBeUsedAgainAtOnceAfterACancel) {
  const auto engine = engine_of(R"({"text": "ab", "ttft_ms": 20, "repeat": true})");
  const auto collector = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "x"), collector).ok());
  EXPECT_FALSE(engine->submit(request(1, "x"), collector).ok()) << "it runs";
  for (int i = 0; i < 50; ++i) {
    engine->cancel(RequestId{1});
    EXPECT_EQ(engine->stats().running, 0U);
    ASSERT_TRUE(engine->submit(request(1, "x"), collector).ok());
  }
  EXPECT_EQ(collector->wait_for_ends(1).size(), 4U) << "accepted, two tokens, finished: of the last one only";
}

TEST(ScriptedEngine, StreamsOfOnePaceGoInStep) {
  const auto engine = engine_of(R"({"text": "abcdef", "itl_ms": 40, "repeat": true})");
  const auto collector = std::make_shared<Collector>();
  for (std::uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE(engine->submit(request(id, "x"), collector).ok());
  EXPECT_EQ(collector->wait_for_ends(20).size(), 20U * 8);
  EXPECT_LT(collector->batches(), 20U * 6) << "not one for each token";
}

TEST(ScriptedEngine, StoppingFailsWhatIsLeft) {
  auto engine = engine_of(R"({"text":"hello","ttft_ms":3600000,"repeat":true})");
  const auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(1, "a"), sink).ok());
  engine.reset();
  const auto events = sink->wait_for_ends(1);
  EXPECT_EQ(std::get<Failed>(events[0].body).error.code, ErrorCode::kUnavailable);
}

TEST(ScriptedEngine, ManyStreamsLoseNothing) {
  const auto engine = engine_of(R"({"text":"0123456789","itl_ms":1,"repeat":true})");
  const auto sink = std::make_shared<Collector>();
  constexpr std::uint64_t kStreams = 200;
  for (std::uint64_t i = 0; i < kStreams; ++i) ASSERT_TRUE(engine->submit(request(i, "a"), sink).ok());
  const auto events = sink->wait_for_ends(kStreams);
  EXPECT_EQ(text_of(events).size(), kStreams * 10);
  EXPECT_LT(sink->batches(), kStreams * 10) << "events due together leave together";
}

}  // namespace
}  // namespace kvern::engine
