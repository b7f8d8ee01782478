#include "pipeline/dispatcher.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

#include "base/worker_pool.h"
#include "ir/event_grammar.h"
#include "pipeline/testing/byte_tokenizer.h"

namespace kvern::pipeline {
namespace {

/// Runs posted work when told to: the loop of these tests, in virtual time.
class ManualExecutor final : public Executor {
 public:
  void post(std::function<void()> work) override { work_.push_back(std::move(work)); }
  void post_after(Duration, std::function<void()> work) override { work_.push_back(std::move(work)); }
  const Clock& clock() const override { return clock_; }
  void run() {
    while (!work_.empty()) {
      auto work = std::move(work_.front());
      work_.pop_front();
      work();
    }
  }

 private:
  ManualClock clock_;
  std::deque<std::function<void()>> work_;
};

/// An engine whose events the test writes by hand.
class HandEngine final : public engine::Engine {
 public:
  const engine::ModelInfo& model() const override { return info_; }
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override {
    if (submitted.size() >= room) return fail(ErrorCode::kOverloaded, "full");
    submitted.push_back(std::move(request));
    sink_ = std::move(sink);
    return {};
  }
  void cancel(RequestId id) override { cancelled.push_back(id); }
  engine::EngineStats stats() const override { return {}; }
  bool healthy() const override { return true; }

  void step(std::vector<engine::EngineEvent> events) { sink_->on_events(std::move(events)); }

  std::vector<engine::GenerateRequest> submitted;
  std::vector<RequestId> cancelled;
  std::size_t room = 1000;

 private:
  engine::ModelInfo info_;
  std::shared_ptr<engine::EventSink> sink_;
};

class Client final : public EventReceiver {
 public:
  void on_events(std::uint32_t choice, std::vector<ir::Event> events) override {
    ++batches;
    for (auto& event : events) {
      EXPECT_EQ(grammars[choice].accept(event), std::nullopt);
      if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) texts[choice] += delta->text;
      all.push_back(std::move(event));
    }
    if (on_batch) on_batch();
  }
  bool complete(std::uint32_t choice = 0) { return grammars[choice].complete(); }
  const ir::Failure* failure() const { return all.empty() ? nullptr : std::get_if<ir::Failure>(&all.back()); }

  std::map<std::uint32_t, ir::EventGrammar> grammars;
  std::map<std::uint32_t, std::string> texts;
  std::vector<ir::Event> all;
  int batches = 0;
  std::function<void()> on_batch;
};

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() : pool_(1, 2), pipeline_metrics_(metrics_, "m") {
    engine_ = std::make_shared<HandEngine>();
    auto model = std::make_shared<Model>();
    model->name = "m";
    model->context_tokens = 100'000;
    model->tokenizer = std::make_shared<testing::ByteTokenizer>();
    model->chat_template = std::make_shared<testing::PlainTemplate>();
    model->engine = engine_;
    model_ = model;
    dispatcher_ = Dispatcher::create(executor_, pool_, pipeline_metrics_, [this] { return RequestId{next_id_++}; });
  }

  static ir::Request request(std::uint64_t id, std::uint32_t choices) {
    ir::Request made;
    made.id = RequestId{id};
    made.prompt = std::string("hi");
    made.choices = choices;
    return made;
  }
  std::shared_ptr<Client> send(std::uint64_t id, std::string prompt = "hi") {
    ir::Request made = request(id, 1);
    made.prompt = std::move(prompt);
    return send(std::move(made));
  }
  std::shared_ptr<Client> send(ir::Request request) {
    auto client = std::make_shared<Client>();
    dispatcher_->start(std::move(request), model_, client);
    executor_.run();
    return client;
  }
  static engine::EngineEvent accepted(std::uint64_t id) { return {RequestId{id}, engine::Accepted{2, 0}}; }
  static engine::EngineEvent says(std::uint64_t id, char c) { return {RequestId{id}, engine::Output{{c}, {}}}; }
  static engine::EngineEvent finished(std::uint64_t id) {
    return {RequestId{id}, engine::Finished{engine::StopCause::kEos, 1}};
  }
  void step(std::vector<engine::EngineEvent> events) {
    engine_->step(std::move(events));
    executor_.run();
  }

  std::uint64_t next_id_ = 100;
  ManualExecutor executor_;
  WorkerPool pool_;
  Metrics metrics_;
  PipelineMetrics pipeline_metrics_;
  std::shared_ptr<HandEngine> engine_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<Dispatcher> dispatcher_;
};

TEST_F(DispatcherTest, EventsOfAStepComeTogether) {
  const auto a = send(1);
  const auto b = send(2);
  step({accepted(1), accepted(2), says(1, 'x'), says(2, 'y'), says(1, 'z')});
  EXPECT_EQ(a->batches, 1);
  EXPECT_EQ(b->batches, 1);
  step({finished(1), finished(2)});
  EXPECT_TRUE(a->complete());
  EXPECT_TRUE(b->complete());
  EXPECT_EQ(dispatcher_->active(), 0U);
}

TEST_F(DispatcherTest, CancelFreesTheEngineAndSilencesLateEvents) {
  const auto client = send(1);
  step({accepted(1), says(1, 'x')});
  dispatcher_->cancel(RequestId{1});
  EXPECT_EQ(engine_->cancelled, std::vector<RequestId>{RequestId{1}});
  step({says(1, 'y'), finished(1)});
  EXPECT_EQ(client->batches, 1);
  EXPECT_EQ(dispatcher_->active(), 0U);
}

TEST_F(DispatcherTest, AReceiverMayCancelItselfAndOthers) {
  const auto a = send(1);
  const auto b = send(2);
  a->on_batch = [this] {
    dispatcher_->cancel(RequestId{1});
    dispatcher_->cancel(RequestId{2});
  };
  step({accepted(1), accepted(2)});
  EXPECT_EQ(a->batches, 1);
  EXPECT_EQ(b->batches, 0);
  EXPECT_EQ(engine_->cancelled.size(), 2U);
}

TEST_F(DispatcherTest, CancelledBeforePreparedIsNeverSubmitted) {
  ir::Request request;
  request.id = RequestId{1};
  request.prompt = std::string("hi");
  dispatcher_->start(std::move(request), model_, std::make_shared<Client>());
  dispatcher_->cancel(RequestId{1});
  executor_.run();
  EXPECT_TRUE(engine_->submitted.empty());
  EXPECT_TRUE(engine_->cancelled.empty());
}

TEST_F(DispatcherTest, AFullEngineIsAFailureWithoutAStart) {
  engine_->room = 0;
  const auto client = send(1);
  ASSERT_EQ(client->all.size(), 1U);
  EXPECT_EQ(std::get<ir::Failure>(client->all[0]).error.code, ErrorCode::kOverloaded);
}

TEST_F(DispatcherTest, ABadPromptIsAFailureWithoutAStart) {
  const auto client = send(1, "");
  ASSERT_EQ(client->all.size(), 1U);
  EXPECT_EQ(std::get<ir::Failure>(client->all[0]).error.code, ErrorCode::kInvalidRequest);
}

// A request of several choices is known to the engine by its own id and by 100, 101...

TEST_F(DispatcherTest, EachChoiceIsARequestOfTheEngine) {
  ir::Request asked = request(1, 3);
  asked.sampling.seed = 7;
  asked.logprobs = 2;
  send(std::move(asked));
  ASSERT_EQ(engine_->submitted.size(), 3U);
  const std::uint64_t ids[] = {1, 100, 101};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& generate = engine_->submitted[i];
    EXPECT_EQ(generate.id, RequestId{ids[i]});
    EXPECT_EQ(generate.prompt, engine_->submitted[0].prompt);
    EXPECT_EQ(generate.sampling.seed, 7 + i);
    EXPECT_EQ(generate.logprobs, 2U);
  }
}

TEST_F(DispatcherTest, ChoicesAreStreamsOfTheirOwnAndEndTogether) {
  const auto client = send(request(1, 2));
  step({accepted(1), accepted(100), says(100, 'b'), says(1, 'a')});
  EXPECT_EQ(client->batches, 2) << "one a choice and step";
  step({finished(100), says(1, 'A')});
  EXPECT_TRUE(client->complete(1));
  EXPECT_FALSE(client->complete(0));
  EXPECT_EQ(dispatcher_->active(), 1U);
  step({finished(1)});
  EXPECT_TRUE(client->complete(0));
  EXPECT_EQ(client->texts, (std::map<std::uint32_t, std::string>{{0, "aA"}, {1, "b"}}));
  EXPECT_EQ(dispatcher_->active(), 0U);
  EXPECT_TRUE(engine_->cancelled.empty());
}

TEST_F(DispatcherTest, AFailureOfOneChoiceBreaksOffAll) {
  const auto client = send(request(1, 3));
  step({accepted(1), accepted(100), accepted(101), says(1, 'a'), finished(101)});
  step({{RequestId{100}, engine::Failed{kvern::fail(ErrorCode::kEngine, "broken")}}, says(1, 'b')});
  ASSERT_NE(client->failure(), nullptr);
  EXPECT_EQ(client->texts[0], "a") << "nothing follows the failure";
  EXPECT_EQ(engine_->cancelled, std::vector<RequestId>{RequestId{1}}) << "the one that still ran";
  EXPECT_EQ(dispatcher_->active(), 0U);
  step({says(1, 'c'), finished(1)});
  EXPECT_NE(client->failure(), nullptr);
}

TEST_F(DispatcherTest, CancelTakesEveryChoice) {
  const auto client = send(request(1, 3));
  step({accepted(1), accepted(100), finished(100)});
  dispatcher_->cancel(RequestId{1});
  EXPECT_EQ(engine_->cancelled, (std::vector<RequestId>{RequestId{1}, RequestId{101}}));
  const int before = client->batches;
  step({says(1, 'x'), says(101, 'y')});
  EXPECT_EQ(client->batches, before);
}

TEST_F(DispatcherTest, NoRoomForAllChoicesTakesBackTheOthers) {
  engine_->room = 2;
  const auto client = send(request(1, 3));
  ASSERT_EQ(client->all.size(), 1U);
  EXPECT_EQ(client->failure()->error.code, ErrorCode::kOverloaded);
  EXPECT_EQ(engine_->cancelled, (std::vector<RequestId>{RequestId{1}, RequestId{100}}));
  step({accepted(1), says(1, 'x')});
  EXPECT_EQ(client->all.size(), 1U);
}

TEST_F(DispatcherTest, AReceiverMayCancelBetweenChoicesOfOneStep) {
  const auto client = send(request(1, 2));
  client->on_batch = [this] { dispatcher_->cancel(RequestId{1}); };
  step({accepted(1), accepted(100)});
  EXPECT_EQ(client->batches, 1);
  EXPECT_EQ(engine_->cancelled.size(), 2U);
}

TEST_F(DispatcherTest, UsageCountsAPromptOnceAndEveryChoice) {
  ir::Request asked = request(1, 2);
  asked.more_prompts = {Tokens{1, 2, 3}};
  send(std::move(asked));
  ASSERT_EQ(engine_->submitted.size(), 4U);
  EXPECT_EQ(engine_->submitted[3].prompt, (Tokens{1, 2, 3}));
  for (const std::uint64_t id : {1, 100, 101, 102}) step({accepted(id), says(id, 'x'), finished(id)});
  EXPECT_EQ(dispatcher_->active(), 0U);
  const std::string text = metrics_.text();
  EXPECT_NE(text.find("vllm:prompt_tokens_total{model_name=\"m\"} 4"), std::string::npos) << text;
  EXPECT_NE(text.find("vllm:generation_tokens_total{model_name=\"m\"} 4"), std::string::npos) << text;
  EXPECT_NE(text.find("vllm:e2e_request_latency_seconds_count{model_name=\"m\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("vllm:time_to_first_token_seconds_count{model_name=\"m\"} 1"), std::string::npos) << text;
}

TEST_F(DispatcherTest, ItsEndCancelsWhatIsLeft) {
  const auto client = send(1);
  step({accepted(1)});
  dispatcher_.reset();
  EXPECT_EQ(engine_->cancelled.size(), 1U);
  step({says(1, 'x')});
  EXPECT_EQ(client->batches, 1);
}

}  // namespace
}  // namespace kvern::pipeline
