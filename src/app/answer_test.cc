#include "app/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat/chat.h"
#include "app/testing/wire.h"

namespace kvern::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class AnswerTest : public testing::Test {
 protected:
  AnswerTest() : log_(LogLevel::kOff), dialect_(api::make_chat_dialect({})), wire_(std::make_shared<Wire>(loop_)) {}

  void ask(bool stream, std::uint32_t choices = 1) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"n":)" + std::to_string(choices) +
                             R"(,"stream":)" + (stream ? "true}" : "false}");
    auto call = dialect_->decode(body, {RequestId{7}, std::chrono::seconds(1)});
    ASSERT_TRUE(call.ok());
    answer_ =
        std::make_shared<Answer>(wire_,
                                 AnswerShape{std::move(call->encoder), stream, choices, choices, extra_fields_,
                                             tells_worker_, std::move(commit_)},
                                 *dialect_, std::weak_ptr<pipeline::Dispatcher>(), log_,
                                 RequestNote{RequestId{7}, "POST", "/v1/chat/completions", "", "", loop_.clock().now(),
                                             [this](int status) { over_.push_back(status); }});
    watched_ = answer_;
    answer_->begin();
  }
  void pass(Duration time) {
    loop_.pass(time);
    if (const auto answer = watched_.lock()) answer->tick(loop_.clock().now());
  }
  void start(std::uint32_t choice = 0) { answer_->on_events(choice, {ir::Start{{5, 0, 0, 0}, worker_}}); }
  void text(std::string text, std::uint32_t choice = 0) {
    answer_->on_events(choice, {ir::BlockStart{0, ir::BlockKind::kText, {}, {}}, ir::BlockDelta{0, std::move(text)}});
  }
  void end(std::uint32_t choice = 0) {
    answer_->on_events(choice, {ir::BlockStop{0}, ir::End{ir::FinishReason::kStop, {}, {5, 0, 1, 0}}});
  }
  void broken(std::uint32_t choice = 0) {
    answer_->on_events(choice, {ir::Failure{kvern::fail(ErrorCode::kUnavailable, "the engine is gone")}});
  }

  Log log_;
  std::unique_ptr<const api::Dialect> dialect_;
  ManualLoop loop_;
  std::shared_ptr<Wire> wire_;
  std::shared_ptr<Answer> answer_;
  std::weak_ptr<Answer> watched_;
  std::vector<int> over_;
  std::string worker_;
  std::vector<std::string> extra_fields_;
  bool tells_worker_ = true;
  std::unique_ptr<Commit> commit_;
};

/// A commit that the test ends.
class LaterCommit final : public Commit {
 public:
  explicit LaterCommit(std::function<void(Result<void>)>& done) : done_(done) {}
  void commit(std::function<void(Result<void>)> done) override { done_ = std::move(done); }
  void withdraw(const Error&, std::string& out) override { out = "withdrawn"; }

 private:
  std::function<void(Result<void>)>& done_;
};

TEST_F(AnswerTest, AStreamsHeadWaitsForTheFirstToken) {
  ask(true);
  start();
  EXPECT_EQ(wire_->status, 0);
  text("hello");
  EXPECT_EQ(wire_->status, 200);
  EXPECT_THAT(wire_->bytes, HasSubstr("hello"));
  end();
  EXPECT_TRUE(wire_->finished);
  EXPECT_THAT(wire_->bytes, HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(over_, std::vector<int>{200});
}

TEST_F(AnswerTest, ItsHeadNamesTheWorkerThatIsKnownByThen) {
  for (const bool stream : {false, true}) {
    wire_ = std::make_shared<Wire>(loop_);
    worker_ = "gpu-1";
    ask(stream);
    start();
    worker_ = "gpu-2";
    start();
    text("hello");
    end();
    EXPECT_EQ(net::find_header(wire_->headers, "x-kvern-worker"), "gpu-1");
    worker_.clear();
  }
  wire_ = std::make_shared<Wire>(loop_);
  ask(true);
  start();
  text("hello");
  EXPECT_EQ(net::find_header(wire_->headers, "x-kvern-worker"), std::nullopt) << "one engine has no name";
}

TEST_F(AnswerTest, AWorkerThatIsKnownTooLateForTheHeadStandsInTheLastEvent) {
  for (const bool tells : {true, false}) {
    wire_ = std::make_shared<Wire>(loop_);
    tells_worker_ = tells;
    ask(true);
    pass(std::chrono::seconds(10));
    EXPECT_EQ(wire_->status, 200);
    worker_ = "gpu-1";
    start();
    text("hello");
    end();
    EXPECT_EQ(net::find_header(wire_->headers, "x-kvern-worker"), std::nullopt);
    EXPECT_EQ(wire_->bytes.find("gpu-1") != std::string::npos, tells);
  }
}

TEST_F(AnswerTest, WhoRanItIsNotToldToEveryone) {
  extra_fields_ = {"worker_id", "timing"};
  worker_ = "gpu-1";
  for (const bool stream : {false, true}) {
    for (const bool tells : {true, false}) {
      wire_ = std::make_shared<Wire>(loop_);
      tells_worker_ = tells;
      ask(stream);
      start();
      text("hello");
      end();
      EXPECT_EQ(net::find_header(wire_->headers, "x-kvern-worker").has_value(), tells);
      EXPECT_EQ(wire_->bytes.find("gpu-1") != std::string::npos, tells);
      EXPECT_THAT(wire_->bytes, HasSubstr("\"nvext\":{"));
    }
  }
}

TEST_F(AnswerTest, AFailureBeforeTheFirstTokenIsAStatus) {
  ask(true);
  start();
  broken();
  EXPECT_EQ(wire_->status, 503);
  EXPECT_THAT(wire_->bytes, StartsWith("{\"error\""));
  EXPECT_EQ(over_, std::vector<int>{503});
}

TEST_F(AnswerTest, AFailureInTheStreamIsAnEvent) {
  ask(true);
  start();
  text("hel");
  broken();
  EXPECT_EQ(wire_->status, 200);
  EXPECT_THAT(wire_->bytes, HasSubstr("data: {\"error\""));
  EXPECT_THAT(wire_->bytes, Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(wire_->finished);
}

TEST_F(AnswerTest, ALongPrefillSendsTheHeadAfterTenSecondsAndKeepsAlive) {
  ask(true);
  start();
  pass(std::chrono::seconds(5));
  EXPECT_EQ(wire_->status, 0);
  pass(std::chrono::seconds(5));
  EXPECT_EQ(wire_->status, 200);
  const std::size_t sent = wire_->bytes.size();
  EXPECT_GT(sent, 0U);
  pass(std::chrono::seconds(5));
  pass(std::chrono::seconds(5));
  EXPECT_GT(wire_->bytes.size(), sent) << "a client that waits sees bytes every 15 s at most";
  broken();
  EXPECT_EQ(wire_->status, 200) << "too late for a status";
}

TEST_F(AnswerTest, AWholeAnswerLeavesAtItsEnd) {
  ask(false);
  start();
  text("hello");
  EXPECT_EQ(wire_->status, 0);
  end();
  EXPECT_EQ(wire_->status, 200);
  EXPECT_THAT(wire_->bytes, HasSubstr("\"content\":\"hello\""));
}

TEST_F(AnswerTest, AWholeAnswerThatFailsIsAStatus) {
  ask(false);
  start();
  text("hello");
  broken();
  EXPECT_EQ(wire_->status, 503);
  EXPECT_THAT(wire_->bytes, Not(HasSubstr("hello")));
}

TEST_F(AnswerTest, TheLastChoiceEndsTheAnswer) {
  for (const bool stream : {false, true}) {
    wire_ = std::make_shared<Wire>(loop_);
    ask(stream, 2);
    for (const std::uint32_t choice : {0U, 1U}) start(choice);
    text("one", 1);
    text("zero", 0);
    end(1);
    EXPECT_FALSE(wire_->finished);
    end(0);
    EXPECT_TRUE(wire_->finished);
    EXPECT_THAT(wire_->bytes, AllOf(HasSubstr("zero"), HasSubstr("one")));
  }
  EXPECT_EQ(over_, (std::vector<int>{200, 200}));
}

TEST_F(AnswerTest, AFailureOfOneChoiceEndsAll) {
  ask(true, 2);
  start(0);
  text("zero", 0);
  broken(1);
  EXPECT_THAT(wire_->bytes, HasSubstr("data: {\"error\""));
  EXPECT_TRUE(wire_->finished);
  EXPECT_EQ(over_, std::vector<int>{200});
}

TEST_F(AnswerTest, AHangUpEndsItOnce) {
  ask(true);
  start();
  text("hel");
  wire_->hang_up();
  end();
  answer_->fail(kvern::fail(ErrorCode::kUnavailable, "x"));
  EXPECT_FALSE(wire_->finished);
  EXPECT_EQ(over_, std::vector<int>{499});
}

TEST_F(AnswerTest, AnEndLeavesWhenItIsCommitted) {
  for (const bool stream : {true, false}) {
    std::function<void(Result<void>)> done;
    commit_ = std::make_unique<LaterCommit>(done);
    wire_ = std::make_shared<Wire>(loop_);
    ask(stream);
    start();
    text("hi");
    end();
    ASSERT_TRUE(done) << stream;
    answer_.reset();                 // as the dispatcher does at the end
    pass(std::chrono::seconds(11));  // no keep-alive behind an end
    EXPECT_FALSE(wire_->finished);
    EXPECT_THAT(wire_->bytes, Not(HasSubstr("\"stop\"")));
    done({});
    EXPECT_TRUE(wire_->finished);
    EXPECT_EQ(wire_->status, 200);
    EXPECT_THAT(wire_->bytes, HasSubstr("\"stop\""));
  }
}

TEST_F(AnswerTest, AnEndThatCannotBeCommittedIsAFailure) {
  for (const bool stream : {true, false}) {
    for (const bool early : {true, false}) {  // all in one batch: nothing has left yet
      std::function<void(Result<void>)> done;
      commit_ = std::make_unique<LaterCommit>(done);
      wire_ = std::make_shared<Wire>(loop_);
      ask(stream);
      start();
      if (early) {
        answer_->on_events(0, {ir::End{}});
      } else {
        text("hi");
        end();
      }
      done(kvern::fail(ErrorCode::kUnavailable, "full"));
      EXPECT_TRUE(wire_->finished);
      const bool begun = stream && !early;
      EXPECT_EQ(wire_->status, begun ? 200 : 503) << stream << early;
      EXPECT_EQ(wire_->bytes.ends_with("withdrawn"), begun);
    }
  }
}

TEST_F(AnswerTest, ACommitMayComeTooLate) {
  std::function<void(Result<void>)> done;
  commit_ = std::make_unique<LaterCommit>(done);
  ask(true);
  start();
  text("hi");
  end();
  answer_->fail(kvern::fail(ErrorCode::kUnavailable, "shutting down"));
  EXPECT_THAT(wire_->bytes, testing::EndsWith("withdrawn"));
  done({});
  EXPECT_EQ(over_.size(), 1U);
  answer_.reset();
  done({});
}

}  // namespace
}  // namespace kvern::app
