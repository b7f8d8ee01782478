#include "app/background_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/follower.h"
#include "app/testing/wire.h"

namespace kvern::app {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A store whose answers the test gives.
class HeldStore final : public pipeline::ResponseStore {
 public:
  void put(pipeline::StoredResponse response, Executor&, Callback<void> done) override {
    put_.push_back(std::move(response));
    done_ = std::move(done);
  }
  void find(std::string, RequestId, Executor&, Callback<pipeline::StoredResponse>) override { FAIL(); }
  void history(std::string, RequestId, std::uint64_t, Executor&,
               Callback<std::vector<pipeline::StoredResponse>>) override {
    FAIL();
  }
  void erase(std::string, RequestId, Executor&, Callback<void>) override { FAIL(); }

  std::vector<pipeline::StoredResponse> put_;
  Callback<void> done_;
};

/// A run that has begun, and one who follows it. The run's word that there is more comes to `told_`: the test pulls.
class BackgroundRunTest : public testing::Test {
 protected:
  BackgroundRunTest() {
    const auto dialect = api::make_responses_dialect({}, {seal_, loop_.clock(), api::ReasoningEvents::kSummary, true});
    const api::ResponsesHistory none;
    auto call = dialect->decode_call(R"({"input":"hi","background":true,"stream":true})",
                                     {RequestId{7}, std::chrono::seconds(1), "t"}, &none);
    KV_CHECK(call.ok());
    run_ = std::make_shared<BackgroundRun>(
        std::move(call->call.encoder), *call->encoder,
        pipeline::StoredResponse{RequestId{7}, "t", {}, true, std::move(call->input), {}, {}, 0},
        BackgroundParts{loop_, {}, store_, log_, [this] { ++over_; }});
    run_->begin();
  }
  void text(const std::string& text) { run_->on_events(0, {ir::Start{}, ir::BlockStart{}, ir::BlockDelta{0, text}}); }
  void more(const std::string& text) { run_->on_events(0, {ir::BlockDelta{0, text}}); }
  void end() { run_->on_events(0, {ir::BlockStop{}, ir::End{}}); }
  void follow(std::uint64_t from = 0) {
    follower_ =
        std::make_shared<Follower>(RequestId{8}, wire_, run_, from, [this](int status) { ended_.push_back(status); });
    follower_->begin({}, [this] { ++told_; });
  }

  Log log_{LogLevel::kOff};
  Seal seal_{Secret(std::string(Seal::kKeyBytes, 'k'))};
  ManualLoop loop_;
  HeldStore store_;
  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>(loop_);
  int over_ = 0;
  int told_ = 0;
  std::vector<int> ended_;
  std::shared_ptr<BackgroundRun> run_;
  std::shared_ptr<Follower> follower_;
};

TEST_F(BackgroundRunTest, WhileItRunsItsStoredFormIsAFailure) {
  EXPECT_THAT(run_->object(), HasSubstr(R"("status":"queued")"));
  EXPECT_THAT(run_->as_lost().answer, HasSubstr(R"("status":"failed")"));
  text("words");
  EXPECT_THAT(run_->object(), HasSubstr(R"("status":"in_progress")"));
  EXPECT_TRUE(store_.put_.empty());
}

TEST_F(BackgroundRunTest, ItsEndIsShownWhenItIsStored) {
  follow();
  text("words");
  end();
  ASSERT_EQ(store_.put_.size(), 1U);
  EXPECT_THAT(store_.put_[0].answer, HasSubstr(R"("status":"completed")"));
  EXPECT_THAT(store_.put_[0].events, HasSubstr("response.completed"));
  follower_->pull();
  EXPECT_THAT(run_->object(), HasSubstr(R"("status":"in_progress")"));
  EXPECT_THAT(wire_->bytes, Not(HasSubstr("response.completed")));
  EXPECT_EQ(over_, 0);
  store_.done_({});
  EXPECT_EQ(over_, 1);
  EXPECT_THAT(run_->object(), HasSubstr(R"("status":"completed")"));
  follower_->pull();
  EXPECT_THAT(wire_->bytes, HasSubstr("response.completed"));
  EXPECT_EQ(wire_->bytes, store_.put_[0].events) << "a replay is the stream";
  EXPECT_TRUE(wire_->finished);
  EXPECT_EQ(ended_, std::vector<int>{200});
}

TEST_F(BackgroundRunTest, AnEndThatCannotBeStoredIsAFailure) {
  follow();
  text("words");
  end();
  store_.done_(fail(ErrorCode::kUnavailable, "the disk is full"));
  follower_->pull();
  EXPECT_THAT(wire_->bytes, HasSubstr("response.failed"));
  EXPECT_THAT(wire_->bytes, Not(HasSubstr("response.completed")));
  EXPECT_THAT(run_->object(), HasSubstr("the disk is full"));
}

TEST_F(BackgroundRunTest, CancellingTwiceIsAsOnceAndWaitsForTheStore) {
  text("words");
  int done = 0;
  run_->cancel([&] { ++done; });
  run_->cancel([&] { ++done; });
  end();  // too late
  ASSERT_EQ(store_.put_.size(), 1U);
  EXPECT_EQ(done, 0);
  store_.done_({});
  EXPECT_EQ(done, 2);
  run_->cancel([&] { ++done; });
  EXPECT_EQ(done, 3);
  EXPECT_EQ(over_, 1);
  EXPECT_THAT(run_->object(), HasSubstr(R"("status":"cancelled")"));
}

TEST_F(BackgroundRunTest, AFollowerBeginsAtAnyEvent) {
  text("words");
  follow(2);  // created, queued
  EXPECT_THAT(wire_->bytes, testing::StartsWith("event: response.in_progress"));
}

TEST_F(BackgroundRunTest, EventsTooLargeForTheLogLeaveTheNewestToFollow) {
  text("first");
  for (int i = 0; i < 40; ++i) more(std::string(1U << 20U, 'x'));
  EXPECT_GT(run_->first_event(), 0U);
  follow(run_->first_event());
  EXPECT_FALSE(wire_->aborted);
  EXPECT_FALSE(wire_->bytes.empty());
}

TEST_F(BackgroundRunTest, AFollowerIsToldAndLetGo) {
  follow();
  text("words");
  EXPECT_EQ(told_, 1);
  wire_->hang_up();
  EXPECT_EQ(ended_, std::vector<int>{499});
  more("more");
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(run_->running());
}

TEST_F(BackgroundRunTest, ASlowFollowerIsWrittenToAsFastAsItReads) {
  follow();
  text("first");
  follower_->pull();
  const std::size_t before = wire_->bytes.size();
  for (int i = 0; i < 40; ++i) more(std::string(10'000, 'x'));
  wire_->full = true;
  follower_->pull();
  loop_.pass(std::chrono::seconds(1));
  EXPECT_EQ(wire_->bytes.size(), before) << "it takes nothing, so it gets nothing";
  wire_->full = false;
  loop_.pass(std::chrono::seconds(1));
  EXPECT_LT(wire_->bytes.size() - before, 100'000U) << "a piece at a time";
  for (int i = 0; i < 10; ++i) loop_.pass(std::chrono::seconds(1));
  EXPECT_GT(wire_->bytes.size() - before, 400'000U);
  EXPECT_FALSE(wire_->aborted);
}

TEST_F(BackgroundRunTest, AFollowerThatFellBehindTheLogIsCutOffNotLiedTo) {
  follow();
  text("first");
  wire_->full = true;
  for (int i = 0; i < 40; ++i) more(std::string(1U << 20U, 'x'));
  follower_->pull();
  EXPECT_FALSE(wire_->aborted);
  wire_->full = false;
  loop_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(wire_->aborted);
  EXPECT_EQ(ended_, std::vector<int>{499});
}

TEST(BackgroundRuns, ThereAreSoManyAtMost) {
  BackgroundRuns runs(0);
  const auto added = runs.add(nullptr);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(added.error().retry_after.has_value());
}

}  // namespace
}  // namespace kvern::app
