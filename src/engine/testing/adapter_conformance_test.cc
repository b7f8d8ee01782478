// What every adapter of workers has to keep, whatever its wire: stream, cancel, error, truncated stream, garbage, slow,
// dead, restart. An adapter adds its wire to the list below. tests/e2e/test_workers.py does the same to real processes.
#include "engine/testing/adapter_conformance.h"

#include "engine/vllm/testing/vllm_wire.h"

namespace kvern::engine::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Wires, AdapterConformance, ::testing::Values(vllm_wire()),
                         [](const auto& wire) { return wire.param.name; });

// --- Stream -------------------------------------------------------------------------------------------------------

TEST_P(AdapterConformance, StreamsTokensInOrderAndEndsOnce) {
  FakeWorker worker([](const Asked&) { return answer({5, 6, 7, 5}); });
  start(worker.port());
  const Heard heard = run(request(1));
  EXPECT_EQ(heard.tokens, (Tokens{5, 6, 7, 5}));
  ASSERT_TRUE(heard.finished);
  EXPECT_EQ(heard.finished->completion_tokens, 4U);
  EXPECT_TRUE(heard.in_order());
  EXPECT_TRUE(wait_until([&] { return engine_->stats().running == 0; }));
}

TEST_P(AdapterConformance, ManyStreamsDoNotMix) {
  FakeWorker worker([](const Asked& asked) {
    // The prompt's last token comes back, so that each stream knows its own.
    const int own = static_cast<int>(asked.body.size() % 97);
    return answer({own, own, own});
  });
  start(worker.port());
  for (std::uint64_t id = 1; id <= 32; ++id) {
    auto one = request(id);
    one.prompt.assign(id, 1);
    ASSERT_TRUE(engine_->submit(std::move(one), sink_).ok());
  }
  for (std::uint64_t id = 1; id <= 32; ++id) {
    const Heard heard = sink_->wait_end(RequestId{id});
    ASSERT_TRUE(heard.finished) << id;
    ASSERT_EQ(heard.tokens.size(), 3U);
    EXPECT_EQ(heard.tokens[0], heard.tokens[2]);
    EXPECT_TRUE(heard.in_order());
  }
}

TEST_P(AdapterConformance, AConnectionCarriesTheNextAnswer) {
  FakeWorker worker([](const Asked&) { return answer({5}); });
  start(worker.port());
  // From one loop, so that both could take the same connection; the first has let go of it before the second begins.
  for (std::uint64_t id = 2; id <= 10; id += 2) {
    const Heard heard = run(request(id));
    ASSERT_EQ(heard.tokens, (Tokens{5}));
  }
  EXPECT_LE(worker.connections(), 4U);
}

// --- Cancel -------------------------------------------------------------------------------------------------------

TEST_P(AdapterConformance, ACancelReachesTheWorkerWithinASecond) {
  FakeWorker worker([](const Asked&) { return begun({5}, Plan::Then::kHang); });
  start(worker.port());
  ASSERT_TRUE(engine_->submit(request(1), sink_).ok());
  ASSERT_TRUE(sink_->wait_tokens(RequestId{1}, 1));
  const auto before = std::chrono::steady_clock::now();
  engine_->cancel(RequestId{1});
  ASSERT_TRUE(worker.wait_hang_ups(1));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_TRUE(wait_until([&] { return engine_->stats().running == 0; }));
  EXPECT_EQ(sink_->heard(RequestId{1}).ends, 0U);
}

TEST_P(AdapterConformance, ACancelBeforeTheFirstByteReachesTheWorker) {
  FakeWorker worker([](const Asked&) { return Plan{{}, Plan::Then::kHang}; });
  start(worker.port());
  ASSERT_TRUE(engine_->submit(request(1), sink_).ok());
  ASSERT_TRUE(wait_until([&] { return worker.asked() == 1; }));
  engine_->cancel(RequestId{1});
  EXPECT_TRUE(worker.wait_hang_ups(1));
}

TEST_P(AdapterConformance, ACancelledConnectionCarriesNothingElse) {
  FakeWorker worker(
      [](const Asked& asked) { return asked.connection == 0 ? begun({5}, Plan::Then::kHang) : answer({9}); });
  start(worker.port());
  ASSERT_TRUE(engine_->submit(request(2), sink_).ok());
  ASSERT_TRUE(sink_->wait_tokens(RequestId{2}, 1));
  engine_->cancel(RequestId{2});
  const Heard heard = run(request(4));
  EXPECT_EQ(heard.tokens, (Tokens{9}));
  // The same id may be used at once.
  EXPECT_EQ(run(request(6)).tokens, (Tokens{9}));
}

TEST_P(AdapterConformance, CancelsOfTheUnknownDoNothing) {
  FakeWorker worker([](const Asked&) { return answer({5}); });
  start(worker.port());
  engine_->cancel(RequestId{77});
  EXPECT_EQ(run(request(1)).tokens, (Tokens{5}));
  engine_->cancel(RequestId{1});
  EXPECT_EQ(run(request(3)).tokens, (Tokens{5}));
}

TEST_P(AdapterConformance, TheEndOfTheEngineFailsWhatIsLeft) {
  FakeWorker worker([](const Asked&) { return begun({5}, Plan::Then::kHang); });
  start(worker.port());
  ASSERT_TRUE(engine_->submit(request(1), sink_).ok());
  ASSERT_TRUE(sink_->wait_tokens(RequestId{1}, 1));
  engine_.reset();
  const Heard heard = sink_->wait_end(RequestId{1});
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kUnavailable);
}

// --- Errors -------------------------------------------------------------------------------------------------------

TEST_P(AdapterConformance, RefusalsHaveACodeAndOurWords) {
  const std::vector<std::pair<int, ErrorCode>> rows{
      {401, ErrorCode::kUnavailable}, {403, ErrorCode::kUnavailable}, {404, ErrorCode::kUnavailable},
      {429, ErrorCode::kOverloaded},  {500, ErrorCode::kEngine},      {502, ErrorCode::kUnavailable},
      {503, ErrorCode::kUnavailable}, {504, ErrorCode::kTimeout},     {302, ErrorCode::kUnavailable}};
  std::uint64_t id = 0;
  for (const auto& [status, code] : rows) {
    FakeWorker worker([answered = status](const Asked&) {
      return Plan{{http_answer(answered, "secret of the worker", "text/plain", "location: http://127.0.0.1:1/\r\n")}};
    });
    start(worker.port());
    const Heard heard = run(request(++id));
    ASSERT_TRUE(heard.failed) << status;
    EXPECT_EQ(heard.failed->code, code) << status;
    EXPECT_EQ(heard.failed->message.find("secret"), std::string::npos);
    EXPECT_EQ(worker.asked(), 1U) << "a redirect is not followed";
    EXPECT_TRUE(heard.in_order());
  }
}

TEST_P(AdapterConformance, RetryAfterIsPassedOnWithinReason) {
  FakeWorker worker([](const Asked&) { return Plan{{http_answer(503, "", "text/plain", "retry-after: 7\r\n")}}; });
  start(worker.port());
  const Heard heard = run(request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->retry_after, std::chrono::seconds(7));
}

/// What is no answer: each ends its own request with an error, and nothing else. One that is lost on the way can be had
/// again (kUnavailable); what came and makes no sense is the worker's failure (kEngine).
TEST_P(AdapterConformance, GarbageEndsItsOwnStreamOnly) {
  const std::string huge(3U << 20U, 'x');
  const int beyond = static_cast<int>(GetParam().vocab_size);
  struct Row {
    const char* name;
    Plan plan;
    ErrorCode code = ErrorCode::kEngine;
  };
  constexpr auto kLost = ErrorCode::kUnavailable;
  const std::vector<Row> rows{
      {"no HTTP", Plan{{"\x01\x02 what is this\r\n\r\n"}, Plan::Then::kClose}, kLost},
      {"nothing", Plan{{}, Plan::Then::kClose}, kLost},
      {"reset", Plan{{}, Plan::Then::kReset}, kLost},
      {"a page", Plan{{http_answer(200, "<html>hello</html>", "text/html")}}, kLost},
      {"a document", Plan{{http_answer(200, "{}")}}, kLost},
      {"no stream", Plan{{http_answer(200, "", "text/event-stream")}}, kLost},
      {"noise", begun({5}, Plan::Then::kClose, chunk("data: {{{{\n\n"))},
      {"broken frame", begun({5}, Plan::Then::kClose, "zz\r\n"), kLost},
      {"truncated", begun({5, 6}, Plan::Then::kClose), kLost},
      {"reset in the middle", begun({5, 6}, Plan::Then::kReset), kLost},
      {"a long line", begun({5}, Plan::Then::kHang, chunk("data: " + huge)), kLost},
      {"a token that is none", begun({5, beyond}, Plan::Then::kHang)},
      {"a negative token", begun({5, -1}, Plan::Then::kHang)},
  };
  std::uint64_t id = 0;
  for (const auto& [name, plan, code] : rows) {
    FakeWorker worker([&, &bad = plan](const Asked& asked) {
      return asked.body.find("[7,7") != std::string::npos ? bad : begun({9, 9, 9}, Plan::Then::kHang);
    });
    start(worker.port());
    const RequestId good{++id};
    ASSERT_TRUE(engine_->submit(request(good.value), sink_).ok());
    ASSERT_TRUE(sink_->wait_tokens(good, 3)) << name;
    auto bad = request(++id);
    bad.prompt = {7, 7};
    const Heard heard = run(std::move(bad));
    ASSERT_TRUE(heard.failed) << name;
    EXPECT_EQ(heard.failed->code, code) << name;
    EXPECT_TRUE(heard.in_order()) << name;
    EXPECT_LE(heard.tokens.size(), 2U) << name;
    EXPECT_EQ(sink_->heard(good).ends, 0U) << name << ": the other stream goes on";
    engine_->cancel(good);
    EXPECT_TRUE(wait_until([&] { return engine_->stats().running == 0; })) << name;
  }
}

TEST_P(AdapterConformance, MoreTokensThanAskedForAreAnError) {
  FakeWorker worker([](const Asked&) { return answer({5, 6, 7, 8}); });
  start(worker.port());
  const Heard heard = run(request(1, 3));
  EXPECT_TRUE(heard.failed);
  EXPECT_EQ(heard.tokens, (Tokens{5, 6, 7}));
}

TEST_P(AdapterConformance, BytesBehindAnAnswerReachNobody) {
  FakeWorker worker([](const Asked&) {
    Plan plan = answer({5});
    plan.pieces.back() += GetParam().head() + GetParam().tokens({66});
    return plan;
  });
  start(worker.port());
  for (std::uint64_t id = 2; id <= 8; id += 2) EXPECT_EQ(run(request(id)).tokens, (Tokens{5}));
}

// --- Slow and dead ------------------------------------------------------------------------------------------------

TEST_P(AdapterConformance, ABlackHoleEndsAtTheFirstTokensDeadline) {
  FakeWorker worker([](const Asked&) { return Plan{{}, Plan::Then::kHang}; });
  start(worker.port(), {.first_token = std::chrono::milliseconds(50)});
  const Heard heard = run(request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kTimeout);
  EXPECT_TRUE(worker.wait_hang_ups(1)) << "the worker need not go on";
}

TEST_P(AdapterConformance, AStreamThatStallsEndsAtItsDeadline) {
  FakeWorker worker([](const Asked&) { return begun({5, 6}, Plan::Then::kHang); });
  start(worker.port(), {.between_tokens = std::chrono::milliseconds(150)});
  const Heard heard = run(request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kTimeout);
  EXPECT_EQ(heard.tokens, (Tokens{5, 6}));
  EXPECT_TRUE(worker.wait_hang_ups(1));
}

TEST_P(AdapterConformance, WordsWithoutTokensMoveNoDeadline) {
  FakeWorker worker([](const Asked& asked) {
    // Before the first token, and after it.
    if (asked.connection == 0) return Plan{{GetParam().head()}, Plan::Then::kMurmur};
    return begun({5}, Plan::Then::kMurmur);
  });
  start(worker.port(),
        {.first_token = std::chrono::milliseconds(150), .between_tokens = std::chrono::milliseconds(150)});
  for (std::uint64_t id = 1; id <= 2; ++id) {
    const Heard heard = run(request(id));
    ASSERT_TRUE(heard.failed);
    EXPECT_EQ(heard.failed->code, ErrorCode::kTimeout);
    EXPECT_EQ(heard.tokens, id == 1 ? Tokens() : Tokens{5});
  }
  EXPECT_TRUE(worker.wait_hang_ups(2));
}

TEST_P(AdapterConformance, ASilentWorkerIsTakenForDead) {
  FakeWorker worker(
      [](const Asked& asked) {
        // The process is stopped: what it was asked before goes on no more, and its probes hang.
        return asked.method == "POST" ? begun({5}, Plan::Then::kHang) : Plan{{}, Plan::Then::kHang};
      },
      true);
  start(worker.port(), {.probe_interval = std::chrono::milliseconds(20), .silent_max = std::chrono::milliseconds(100)});
  const Heard heard = run(request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kUnavailable);
  EXPECT_FALSE(engine_->healthy());
}

/// The deadline itself counts, not the failed probe that comes after it.
TEST_P(AdapterConformance, SilenceEndsAtItsDeadline) {
  FakeWorker worker([](const Asked&) { return Plan{{}, Plan::Then::kHang}; }, true);
  using std::chrono::milliseconds;
  const auto since = std::chrono::steady_clock::now();
  start(worker.port(),
        {.probe = milliseconds(500), .probe_interval = milliseconds(500), .silent_max = milliseconds(1050)});
  const Heard heard = run(request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kUnavailable);
  const auto took = std::chrono::steady_clock::now() - since;
  EXPECT_GE(took, milliseconds(1000));
  EXPECT_LT(took, milliseconds(1900)) << "the second probe fails after 2 s";
}

TEST_P(AdapterConformance, ADeadWorkerIsUnhealthyAtOnceAndARestartHeals) {
  auto worker = std::make_unique<FakeWorker>([](const Asked&) { return answer({5}); });
  const std::uint16_t port = worker->port();
  start(port, {.probe_interval = std::chrono::milliseconds(20)});
  EXPECT_TRUE(engine_->healthy());
  EXPECT_EQ(run(request(1)).tokens, (Tokens{5}));
  worker->die();
  const Heard heard = run(request(2));
  ASSERT_TRUE(heard.failed);
  EXPECT_TRUE(retryable(heard.failed->code));
  EXPECT_TRUE(wait_until([&] { return !engine_->healthy(); }));
  worker = std::make_unique<FakeWorker>([](const Asked&) { return answer({6}); }, false, port);
  EXPECT_TRUE(wait_until([&] { return engine_->healthy(); }));
  EXPECT_EQ(run(request(3)).tokens, (Tokens{6}));
}

TEST_P(AdapterConformance, AWorkerThatFailsAgainAndAgainIsBenched) {
  FakeWorker worker([](const Asked&) { return Plan{{http_answer(500, "no")}}; });
  start(worker.port());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    EXPECT_TRUE(engine_->healthy());
    EXPECT_TRUE(run(request(id)).failed);
  }
  EXPECT_FALSE(engine_->healthy());
}

TEST_P(AdapterConformance, ACrowdThatFailsTogetherIsOneFailure) {
  FakeWorker worker([](const Asked&) { return begun({5}, Plan::Then::kHang); });
  start(worker.port(), {.probe_interval = std::chrono::milliseconds(20)});
  for (std::uint64_t id = 1; id <= 16; ++id) ASSERT_TRUE(engine_->submit(request(id), sink_).ok());
  for (std::uint64_t id = 1; id <= 16; ++id) ASSERT_TRUE(sink_->wait_tokens(RequestId{id}, 1));
  const std::uint16_t port = worker.port();
  worker.die();
  for (std::uint64_t id = 1; id <= 16; ++id) EXPECT_TRUE(sink_->wait_end(RequestId{id}).failed);
  // Back at once, as by a supervisor, it is used at once.
  FakeWorker again([](const Asked&) { return answer({6}); }, false, port);
  EXPECT_TRUE(wait_until([&] { return engine_->healthy(); }));
  EXPECT_EQ(run(request(17)).tokens, (Tokens{6}));
}

TEST_P(AdapterConformance, CancelsSayNothingAboutTheWorker) {
  FakeWorker worker([](const Asked&) { return begun({5}, Plan::Then::kHang); });
  start(worker.port());
  for (std::uint64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(engine_->submit(request(id), sink_).ok());
    ASSERT_TRUE(sink_->wait_tokens(RequestId{id}, 1));
    engine_->cancel(RequestId{id});
  }
  EXPECT_TRUE(worker.wait_hang_ups(20));
  EXPECT_TRUE(engine_->healthy());
}

}  // namespace
}  // namespace kvern::engine::testing
