#include "pipeline/fleet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/rng.h"
#include "pipeline/testing/hand_engine.h"

namespace kvern::pipeline {
namespace {

using testing::HandEngine;

/// Collects what came, one letter an event: A(ccepted) O(utput) F(inished) X (failed).
class Ear final : public engine::EventSink {
 public:
  void on_events(std::vector<engine::EngineEvent> events) override {
    for (const auto& event : events) {
      heard[event.id.value] += "AOFX"[event.body.index()];
      if (const auto* accepted = std::get_if<engine::Accepted>(&event.body)) worker = accepted->worker;
      if (const auto* failed = std::get_if<engine::Failed>(&event.body)) error = failed->error;
    }
  }
  std::map<std::uint64_t, std::string> heard;
  std::string worker;
  Error error;
};

const engine::Accepted kAccepted{.prompt_tokens = 3};
const engine::Output kOutput{.tokens = {7}};
const engine::Finished kFinished{};
engine::Failed failed(ErrorCode code) { return {fail(code, "told by the test")}; }

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() { make(3); }

  void make(std::size_t workers, FleetOptions options = {}) {
    make_with(std::vector<std::uint32_t>(workers, 0), options);
  }
  /// A worker for each of the context lengths.
  void make_with(const std::vector<std::uint32_t>& lengths, FleetOptions options = {}) {
    engines.clear();
    for (const std::uint32_t length : lengths) {
      engines.push_back(std::make_shared<HandEngine>());
      engines.back()->info.context_tokens = length;
    }
    fleet = std::make_unique<Fleet>(engine::ModelInfo{.name = "m"}, listed(),
                                    std::move(router::make_strategy("least_loaded")).value(), options);
  }
  std::vector<Fleet::Worker> listed() const {
    std::vector<Fleet::Worker> out;
    for (std::size_t i = 0; i < engines.size(); ++i)
      out.push_back({std::string(1, static_cast<char>('a' + i)), engines[i]});
    return out;
  }
  Result<void> submit(std::uint64_t id, std::uint32_t max_tokens = 1, std::uint32_t min_tokens = 0) {
    engine::GenerateRequest request;
    request.id = RequestId{id};
    request.prompt = {1, 2, 3};
    request.max_tokens = max_tokens;
    request.min_tokens = min_tokens;
    return fleet->submit(std::move(request), ear);
  }
  std::uint32_t requests() const {
    std::uint32_t sum = 0;
    for (const auto& one : fleet->status()) sum += one.requests;
    return sum;
  }

  std::vector<std::shared_ptr<HandEngine>> engines;
  std::shared_ptr<Ear> ear = std::make_shared<Ear>();
  std::unique_ptr<Fleet> fleet;
};

TEST_F(FleetTest, ANamedWorkerOrNone) {
  for (const std::uint64_t id : {1, 2, 3}) {
    engine::GenerateRequest request;
    request.id = RequestId{id};
    request.prompt = {1, 2, 3};
    request.worker = "b";
    ASSERT_TRUE(fleet->submit(std::move(request), ear).ok());
    EXPECT_EQ(engines[1]->submitted.size(), id);
  }
  // It is not given to another one when that one fails.
  engines[1]->send(RequestId{1}, failed(ErrorCode::kUnavailable));
  EXPECT_EQ(ear->heard[1], "X");
  EXPECT_EQ(fleet->retries(), 0U);

  engine::GenerateRequest stranger;
  stranger.id = RequestId{9};
  stranger.prompt = {1};
  stranger.worker = "http://127.0.0.1:1";
  const auto refused = fleet->submit(std::move(stranger), ear);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(refused.error().message.find("127.0.0.1"), std::string::npos);

  engines[2]->is_healthy = false;
  engine::GenerateRequest unlucky;
  unlucky.id = RequestId{10};
  unlucky.prompt = {1};
  unlucky.worker = "c";
  EXPECT_EQ(fleet->submit(std::move(unlucky), ear).error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetTest, PlacesByLoadAndNamesTheWorker) {
  for (const std::uint64_t id : {1, 2, 3, 4}) ASSERT_TRUE(submit(id).ok());
  EXPECT_EQ(engines[0]->submitted.size(), 2U);
  EXPECT_EQ(engines[1]->submitted.size(), 1U);
  EXPECT_EQ(engines[2]->submitted.size(), 1U);
  engines[1]->send(RequestId{2}, kAccepted);
  EXPECT_EQ(ear->heard[2], "") << "Accepted waits: the request may yet move on";
  engines[1]->send(RequestId{2}, kOutput);
  engines[1]->send(RequestId{2}, kFinished);
  EXPECT_EQ(ear->heard[2], "AOF");
  EXPECT_EQ(ear->worker, "b");
  EXPECT_EQ(requests(), 3U);
}

TEST_F(FleetTest, AFailureBeforeTheFirstTokenMovesOnAndIsNotSeen) {
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, kAccepted);
  engines[0]->send(RequestId{1}, failed(ErrorCode::kUnavailable));
  ASSERT_EQ(engines[1]->submitted.size(), 1U);
  EXPECT_EQ(engines[1]->submitted[0].prompt, (Tokens{1, 2, 3}));
  engines[1]->send(RequestId{1}, kAccepted);
  engines[1]->send(RequestId{1}, kOutput);
  engines[1]->send(RequestId{1}, kFinished);
  EXPECT_EQ(ear->heard[1], "AOF");
  EXPECT_EQ(ear->worker, "b");
  EXPECT_EQ(fleet->retries(), 1U);
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, AfterTheFirstTokenAFailureIsTheAnswer) {
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, kAccepted);
  engines[0]->send(RequestId{1}, kOutput);
  engines[0]->send(RequestId{1}, failed(ErrorCode::kEngine));
  EXPECT_EQ(ear->heard[1], "AOX");
  EXPECT_EQ(engines[1]->submitted.size(), 0U);
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, WhatIsTheRequestsFaultIsNotTriedElsewhere) {
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, failed(ErrorCode::kInvalidRequest));
  EXPECT_EQ(ear->heard[1], "X");
  engines[0]->refusal = fail(ErrorCode::kInvalidRequest, "no such seed");
  const auto refused = submit(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidRequest);
  EXPECT_TRUE(engines[1]->submitted.empty() && engines[2]->submitted.empty());
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, EachWorkerIsTriedOnceAndTheLastWordCounts) {
  for (const auto& engine : engines) engine->refusal = fail(ErrorCode::kOverloaded, "full");
  const auto refused = submit(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(ear->heard.empty());
  engines[2]->refusal.reset();
  ASSERT_TRUE(submit(1).ok());
  engines[2]->send(RequestId{1}, failed(ErrorCode::kTimeout));
  EXPECT_EQ(ear->heard[1], "X");
  EXPECT_EQ(ear->error.code, ErrorCode::kTimeout);
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, ARequestGoesWhereItFits) {
  make_with({8, 16, 3});
  // Prompts of 3 tokens. What fits the short ones is spread, what does not goes to the long one however busy it is.
  ASSERT_TRUE(submit(1, 5).ok());
  for (const std::uint64_t id : {2, 3, 4}) ASSERT_TRUE(submit(id, 6).ok());
  ASSERT_TRUE(submit(5, 5).ok());
  EXPECT_EQ(engines[0]->submitted.size(), 2U);
  EXPECT_EQ(engines[1]->submitted.size(), 3U);
  EXPECT_EQ(engines[2]->submitted.size(), 0U) << "no room for a single token after the prompt";
  EXPECT_EQ(engines[1]->submitted[0].max_tokens, 6U);
}

TEST_F(FleetTest, AmpleRoomIsAsGoodAsMore) {
  make_with({20'000, 40'000});
  for (const std::uint64_t id : {1, 2, 3, 4}) ASSERT_TRUE(submit(id, 39'997).ok());
  EXPECT_EQ(engines[0]->submitted.size(), 2U);
  EXPECT_EQ(engines[0]->submitted[0].max_tokens, 19'997U);
  EXPECT_EQ(engines[1]->submitted[0].max_tokens, 39'997U);
}

TEST_F(FleetTest, AShorterWorkerCutsTheAnswerWhenNoOtherIsThere) {
  make_with({8, 16});
  engines[1]->is_healthy = false;
  ASSERT_TRUE(submit(1, 13).ok());
  ASSERT_EQ(engines[0]->submitted.size(), 1U);
  EXPECT_EQ(engines[0]->submitted[0].max_tokens, 5U);
  EXPECT_EQ(submit(2, 13, 6).error().code, ErrorCode::kUnavailable) << "min_tokens fit the other one only";
  engines[1]->is_healthy = true;
  ASSERT_TRUE(submit(2, 13, 6).ok());
  engines[1]->send(RequestId{2}, failed(ErrorCode::kUnavailable));
  EXPECT_EQ(ear->heard[2], "X") << "nor may it move to one that it does not fit";
  EXPECT_EQ(engines[0]->submitted.size(), 1U);
  EXPECT_EQ(requests(), 1U);
}

TEST_F(FleetTest, APromptThatFitsNoWorkerIsTooLong) {
  make_with({2, 3});
  EXPECT_EQ(submit(1).error().code, ErrorCode::kContextLength);
  for (const auto& engine : engines) engine->is_healthy = false;
  EXPECT_EQ(submit(1).error().code, ErrorCode::kContextLength) << "waiting would not help";
  make_with({2, 4});
  engines[1]->is_healthy = false;
  EXPECT_EQ(submit(1).error().code, ErrorCode::kUnavailable) << "waiting may help";
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, AWorkerThatTurnsOutShorterSendsItOn) {
  make_with({16, 16});
  ASSERT_TRUE(submit(1, 13).ok());
  engines[0]->send(RequestId{1}, failed(ErrorCode::kContextLength));
  ASSERT_EQ(engines[1]->submitted.size(), 1U);
  engines[1]->send(RequestId{1}, failed(ErrorCode::kContextLength));
  EXPECT_EQ(ear->heard[1], "X");
  EXPECT_EQ(ear->error.code, ErrorCode::kContextLength);
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, AttemptsAreBounded) {
  make(5, {.attempts_max = 2});
  for (const auto& engine : engines) engine->refusal = fail(ErrorCode::kOverloaded, "full");
  EXPECT_FALSE(submit(1).ok());
  std::uint64_t placed = 0;
  for (const auto& one : fleet->status()) placed += one.placed;
  EXPECT_EQ(placed, 2U);
}

TEST_F(FleetTest, NobodyHealthyIsUnavailableWithATimeToComeBack) {
  for (const auto& engine : engines) engine->is_healthy = false;
  EXPECT_FALSE(fleet->healthy());
  const auto refused = submit(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(refused.error().retry_after.has_value());
  engines[2]->is_healthy = true;
  ASSERT_TRUE(submit(1).ok());
  EXPECT_EQ(engines[2]->submitted.size(), 1U);
}

TEST_F(FleetTest, ACancelReachesTheWorkerThatHasIt) {
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, failed(ErrorCode::kUnavailable));
  fleet->cancel(RequestId{1});
  EXPECT_TRUE(engines[0]->cancelled.empty());
  EXPECT_EQ(engines[1]->cancelled, std::vector{RequestId{1}});
  engines[1]->send(RequestId{1}, kOutput);
  EXPECT_EQ(ear->heard[1], "") << "late events are dropped";
  fleet->cancel(RequestId{99});
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, AWorkerCannotSpeakForARequestOfAnother) {
  ASSERT_TRUE(submit(1).ok());  // on a
  ASSERT_TRUE(submit(2).ok());  // on b
  engines[1]->send(RequestId{2}, kAccepted);
  engines[1]->send(RequestId{1}, kOutput);
  engines[1]->send(RequestId{1}, kFinished);
  engines[1]->send(RequestId{1}, failed(ErrorCode::kEngine));
  EXPECT_EQ(ear->heard[1], "");
  engines[0]->send(RequestId{1}, kOutput);
  EXPECT_EQ(ear->heard[1], "O");
}

TEST_F(FleetTest, AnIdInUseIsRefused) {
  ASSERT_TRUE(submit(1).ok());
  EXPECT_EQ(submit(1).error().code, ErrorCode::kInternal);
  engines[0]->send(RequestId{1}, kFinished);
  EXPECT_EQ(ear->heard[1], "F");
}

TEST_F(FleetTest, WorkersComeAndGoWhileRequestsRun) {
  ASSERT_TRUE(submit(1).ok());
  auto list = listed();
  list.erase(list.begin());
  list.push_back({"d", std::make_shared<HandEngine>()});
  fleet->set_workers(list);
  EXPECT_EQ(fleet->status().size(), 3U);
  engines[0]->send(RequestId{1}, kOutput);
  engines[0]->send(RequestId{1}, kFinished);
  EXPECT_EQ(ear->heard[1], "OF") << "one that was taken out finishes";
  ASSERT_TRUE(submit(2).ok());
  EXPECT_EQ(engines[0]->submitted.size(), 1U) << "and gets nothing new";
  EXPECT_EQ(engines[0].use_count(), 1) << "and is let go when it has nothing left";
  fleet->set_workers({});
  EXPECT_EQ(submit(3).error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetTest, TheLastWorkerLeftIsGivenTheRequestWithoutACopy) {
  make(1);
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, failed(ErrorCode::kUnavailable));
  EXPECT_EQ(ear->heard[1], "X");
  EXPECT_EQ(requests(), 0U);
}

TEST_F(FleetTest, EndingFailsWhatIsLeft) {
  ASSERT_TRUE(submit(1).ok());
  engines[0]->send(RequestId{1}, kOutput);
  fleet.reset();
  EXPECT_EQ(ear->heard[1], "OX");
  EXPECT_EQ(ear->error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(engines[0]->cancelled, std::vector{RequestId{1}});
}

/// Random histories: whatever the workers do, each request ends once, in order, and the books come out even.
TEST_F(FleetTest, RandomHistoriesEndEachRequestOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    make(1 + rng.next() % 4, {.attempts_max = 1 + static_cast<std::uint32_t>(rng.next() % 4)});
    ear->heard.clear();
    std::map<std::uint64_t, bool> cancelled;
    std::uint64_t ids = 0;
    const auto any_id = [&] { return RequestId{1 + rng.next() % std::max<std::uint64_t>(1, ids)}; };
    for (int step = 0; step < 200; ++step) {
      auto& engine = *engines[rng.next() % engines.size()];
      switch (rng.next() % 9) {
        case 0:
        case 1:
          if (submit(++ids).ok()) {
            cancelled[ids] = false;
          } else {
            EXPECT_EQ(ear->heard[ids], "");
          }
          break;
        case 2: engine.send(any_id(), kAccepted); break;
        case 3:
        case 4: engine.send(any_id(), kOutput); break;
        case 5: engine.send(any_id(), kFinished); break;
        case 6:
          engine.send(any_id(), failed(rng.next() % 2 == 0 ? ErrorCode::kUnavailable : ErrorCode::kInternal));
          break;
        case 7:
          if (const auto id = any_id(); cancelled.contains(id.value)) {
            fleet->cancel(id);
            cancelled[id.value] = true;
          }
          break;
        default:
          engine.is_healthy = rng.next() % 4 != 0;
          engine.refusal = rng.next() % 4 == 0 ? std::optional(fail(ErrorCode::kOverloaded, "full")) : std::nullopt;
      }
    }
    fleet.reset();
    for (const auto& [id, was_cancelled] : cancelled) {
      std::string heard = ear->heard[id];
      if (heard.starts_with('A')) heard.erase(0, 1);
      const auto outputs = std::min(heard.find_first_not_of('O'), heard.size());
      heard.erase(0, outputs);
      EXPECT_TRUE(heard == "F" || heard == "X" || (heard.empty() && was_cancelled)) << id << ": " << ear->heard[id];
    }
  }
}

/// Answers each request at once from a thread of its own, or fails it.
class BusyEngine final : public engine::Engine {
 public:
  explicit BusyEngine(std::uint64_t seed) : rng_(seed), thread_([this] { run(); }) {}
  ~BusyEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  const engine::ModelInfo& model() const override { return info_; }
  Result<void> submit(engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.emplace_back(request.id, std::move(sink));
    }
    wake_.notify_all();
    return {};
  }
  void cancel(RequestId) override {}
  engine::EngineStats stats() const override { return {}; }
  bool healthy() const override { return true; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || !queue_.empty()) {
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      auto queue = std::exchange(queue_, {});
      lock.unlock();
      for (auto& [id, sink] : queue) {
        if (rng_.next() % 3 == 0) {
          sink->on_events({{id, failed(ErrorCode::kUnavailable)}});
        } else {
          sink->on_events({{id, kAccepted}, {id, kOutput}, {id, kFinished}});
        }
      }
      queue.clear();
      lock.lock();
    }
  }
  engine::ModelInfo info_;
  Rng rng_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::pair<RequestId, std::shared_ptr<engine::EventSink>>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

class CountingSink final : public engine::EventSink {
 public:
  void on_events(std::vector<engine::EngineEvent> events) override {
    for (const auto& event : events) {
      if (std::holds_alternative<engine::Finished>(event.body) || std::holds_alternative<engine::Failed>(event.body))
        ++ended;
    }
  }
  std::atomic<int> ended{0};
};

TEST(FleetThreads, WorkersWithThreadsComeAndGoUnderLoad) {
  const auto sink = std::make_shared<CountingSink>();
  std::vector<Fleet::Worker> workers;
  for (int i = 0; i < 4; ++i) workers.push_back({std::to_string(i), std::make_shared<BusyEngine>(i)});
  auto fleet =
      std::make_unique<Fleet>(engine::ModelInfo{}, workers, std::move(router::make_strategy("round_robin")).value());
  std::atomic<int> taken{0};
  std::vector<std::thread> clients;
  for (std::uint64_t lane = 0; lane < 3; ++lane) {
    clients.emplace_back([&, lane] {
      for (std::uint64_t i = 0; i < 400; ++i) {
        engine::GenerateRequest request;
        request.id = RequestId{lane << 32U | i};
        request.prompt = {1, 2};
        if (fleet->submit(std::move(request), sink).ok()) ++taken;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    workers[static_cast<std::size_t>(i) % workers.size()] = {"new" + std::to_string(i),
                                                             std::make_shared<BusyEngine>(i)};
    fleet->set_workers(workers);
  }
  for (auto& client : clients) client.join();
  workers.clear();
  fleet.reset();
  EXPECT_EQ(sink->ended.load(), taken.load());
}

}  // namespace
}  // namespace kvern::pipeline
