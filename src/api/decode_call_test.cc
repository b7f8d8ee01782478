// What holds for every dialect behind its own decoder: hints from headers, placement for administrators only, bounds.
#include "api/decode_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/testing/dialects.h"

namespace kvern::api {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DecodeCall : public ::testing::TestWithParam<testing::Speaker> {
 protected:
  Result<Call> decode(const HeaderList& headers, const std::string& members = R"("top_p":1)", bool may_place = true) {
    const Limits limits;
    const auto dialect = GetParam().make(limits);
    return decode_call(*dialect, GetParam().body(members), headers, {RequestId{1}, std::chrono::seconds(1), "acme"},
                       limits, may_place);
  }
  /// "id agent parent", with "final" behind.
  std::string session(const HeaderList& headers, const std::string& members = R"("top_p":1)") {
    const auto call = decode(headers, members);
    if (!call) return call.error().message;
    const ir::Session& made = call->request.session;
    return made.id + " " + made.agent + " " + made.parent + (made.final ? " final" : "");
  }
};
INSTANTIATE_TEST_SUITE_P(Dialects, DecodeCall, ::testing::ValuesIn(testing::speakers()),
                         [](const auto& about) { return about.param.name; });

TEST_P(DecodeCall, WhoseTurnItIs) {
  struct Row {
    HeaderList headers;
    std::string session;
  };
  const Row rows[] = {
      {{}, "  "},
      {{{"x-kvern-session-id", "k"}, {"x-kvern-parent-session-id", "p"}, {"x-kvern-session-final", "1"}}, "k  p final"},
      {{{"X-Dynamo-Session-ID", "d"}, {"X-Dynamo-Parent-Session-ID", "p"}, {"X-Dynamo-Session-Final", "true"}},
       "d  p final"},
      {{{"x-dynamo-session-id", "d"}, {"x-dynamo-parent-session-id", "d"}}, "d  "},
      {{{"x-dynamo-session-id", "d"}, {"x-dynamo-session-final", "maybe"}}, "d  "},
      {{{"X-Claude-Code-Session-Id", "c"}}, "c  "},
      {{{"x-claude-code-session-id", "c"}, {"x-claude-code-agent-id", "a"}}, "c a c"},
      {{{"x-claude-code-session-id", "c"}, {"x-claude-code-agent-id", "a"}, {"x-claude-code-parent-agent-id", "b"}},
       "c a b"},
      {{{"session-id", "s"}, {"thread-id", "s"}}, "s  "},
      {{{"session-id", "s"}, {"thread-id", "t"}, {"x-codex-parent-thread-id", "s"}}, "s t s"},
      {{{"thread-id", "t"}}, "t  "},
      {{{"session_id", "old"}}, "old  "},
      {{{"x-deepseek-harness-session-id", "s"}, {"x-deepseek-harness-parent-session-id", "p"}}, "s  p"},
      {{{"x-session-id", "o"}, {"x-session-affinity", "o"}, {"x-parent-session-id", "p"}}, "o  p"},
      // The first that says anything wins; a blank one says nothing.
      {{{"x-session-id", "o"}, {"thread-id", "t"}, {"x-claude-code-session-id", "c"}, {"x-dynamo-session-id", "d"}},
       "d  "},
      {{{"x-dynamo-session-id", " "}, {"x-session-id", "o"}}, "o  "},
      // Ids are opaque.
      {{{"x-session-id", "___decode_addr_127.0.0.1:80 ../../etc {\"a\":1}"}},
       "___decode_addr_127.0.0.1:80 ../../etc {\"a\":1}  "},
  };
  for (const Row& row : rows) EXPECT_EQ(session(row.headers), row.session);
}

TEST_P(DecodeCall, AHeaderWinsOverTheBody) {
  const std::string body =
      R"("prompt_cache_key":"key","priority":3,"nvext":{"agent_context":{"session_id":"b","trajectory_id":"t"}})";
  EXPECT_EQ(session({}, body), "b t b");
  EXPECT_EQ(session({{"x-session-id", "o"}}, body), "o  ");
  EXPECT_EQ(decode({}, body)->request.hints.priority, 3);
  const auto call = decode({{"x-dynamo-request-priority", "-5"}, {"x-dynamo-request-strict-priority", "2"}}, body);
  EXPECT_EQ(call->request.hints.priority, -5);
  EXPECT_EQ(call->request.hints.strict_priority, 2U);
  EXPECT_EQ(decode({{"x-kvern-priority", "99999999999"}}, body)->request.hints.priority, 1'000'000'000);
}

TEST_P(DecodeCall, WhatIsNoNumberHasNoEffect) {
  const auto call = decode({{"x-dynamo-request-priority", "high"},
                            {"x-dynamo-request-strict-priority", "-1"},
                            {"x-dynamo-dp-rank", "4294967295"}});
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.hints, ir::Hints());
}

TEST_P(DecodeCall, HeadersWithoutEffectAreNamed) {
  const auto call = decode({{"X-Dynamo-Prefill-Instance-Id", "7"}, {"x-dynamo-meta-policy-class", "gold"}});
  ASSERT_TRUE(call.ok());
  EXPECT_THAT(call->left_out, ElementsAre("x-dynamo-prefill-instance-id", "x-dynamo-meta-policy-class"));
}

TEST_P(DecodeCall, OnlyAnAdministratorChoosesTheWorker) {
  const HeaderList headers{{"x-worker-instance-id", "gpu-1"}, {"x-data-parallel-rank", "2"}};
  const std::string body = R"("nvext":{"backend_instance_id":7,"annotations":["query_instance_id:"]})";
  auto call = decode(headers, body);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.hints.worker, "gpu-1");
  EXPECT_EQ(call->request.hints.worker_rank, 2U);
  EXPECT_EQ(call->request.hints.annotations.size(), 1U);
  EXPECT_THAT(call->left_out, IsEmpty());
  call = decode(headers, body, false);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.hints, ir::Hints());
  EXPECT_THAT(call->left_out, Contains(HasSubstr("for admin keys")).Times(3));
}

TEST_P(DecodeCall, AnIdOverItsLimitIsRefusedNeverCut) {
  for (const char* name : {"x-session-id", "x-claude-code-agent-id", "thread-id", "x-dynamo-worker-instance-id"}) {
    const auto call = decode({{name, std::string(513, 'i')}});
    ASSERT_FALSE(call.ok()) << name;
    EXPECT_EQ(call.error().param, name);
  }
}

TEST_P(DecodeCall, TheTenantIsTheContexts) { EXPECT_EQ(decode({})->request.tenant, "acme"); }

}  // namespace
}  // namespace kvern::api
