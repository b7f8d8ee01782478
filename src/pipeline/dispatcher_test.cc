#include "pipeline/dispatcher.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>

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
    if (full) return fail(ErrorCode::kOverloaded, "full");
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
  bool full = false;

 private:
  engine::ModelInfo info_;
  std::shared_ptr<engine::EventSink> sink_;
};

class Client final : public EventReceiver {
 public:
  void on_events(std::vector<ir::Event> events) override {
    ++batches;
    for (auto& event : events) {
      EXPECT_EQ(grammar.accept(event), std::nullopt);
      all.push_back(std::move(event));
    }
    if (on_batch) on_batch();
  }
  ir::EventGrammar grammar;
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
    dispatcher_ = Dispatcher::create(executor_, pool_, pipeline_metrics_);
  }

  std::shared_ptr<Client> send(std::uint64_t id, std::string prompt = "hi") {
    ir::Request request;
    request.id = RequestId{id};
    request.prompt = std::move(prompt);
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
  EXPECT_TRUE(a->grammar.complete());
  EXPECT_TRUE(b->grammar.complete());
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
  engine_->full = true;
  const auto client = send(1);
  ASSERT_EQ(client->all.size(), 1U);
  EXPECT_EQ(std::get<ir::Failure>(client->all[0]).error.code, ErrorCode::kOverloaded);
}

TEST_F(DispatcherTest, ABadPromptIsAFailureWithoutAStart) {
  const auto client = send(1, "");
  ASSERT_EQ(client->all.size(), 1U);
  EXPECT_EQ(std::get<ir::Failure>(client->all[0]).error.code, ErrorCode::kInvalidRequest);
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
