// `nvext` on every dialect: the same fields, the same faults, the same ir.
#include "api/extension.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/testing/describe.h"
#include "api/testing/dialects.h"

namespace kvern::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OnEach : public ::testing::TestWithParam<testing::Speaker> {
 protected:
  Result<Call> decode(const std::string& nvext) { return GetParam().decode(R"("nvext":)" + nvext); }
  std::string described(const std::string& nvext) {
    auto call = decode(nvext);
    if (!call) return call.error().message;
    std::ostringstream out;
    testing::describe(call->request.hints, out);
    testing::describe(call->request.session, out);
    return out.str();
  }
};
INSTANTIATE_TEST_SUITE_P(Dialects, OnEach, ::testing::ValuesIn(testing::speakers()),
                         [](const auto& about) { return about.param.name; });

TEST_P(OnEach, HintsBecomeIr) {
  auto call = decode(
      R"({"agent_hints":{"priority":7,"strict_priority":4294967295,"osl":250,"speculative_prefill":true,
          "latency_sensitivity":1.5},"cache_salt":"pepper","annotations":["request_id","llm_metrics"],
          "extra_fields":["timing"],"request_timestamp_ms":1234.5,"max_thinking_tokens":2048,"greed_sampling":true})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const ir::Request& request = call->request;
  EXPECT_EQ(request.hints.priority, 7);
  EXPECT_EQ(request.hints.strict_priority, 4294967295U);
  EXPECT_EQ(request.hints.output_tokens, 250U);
  EXPECT_TRUE(request.hints.speculative_prefill);
  EXPECT_EQ(request.hints.latency_sensitivity, 1.5);
  EXPECT_EQ(request.hints.cache_salt, "pepper");
  EXPECT_THAT(request.hints.annotations, ElementsAre("request_id", "llm_metrics"));
  EXPECT_THAT(request.hints.extra_fields, ElementsAre("timing"));
  EXPECT_EQ(request.hints.timestamp_ms, 1234.5);
  EXPECT_EQ(request.reasoning.budget_tokens, 2048U);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_THAT(call->left_out, IsEmpty());
}

TEST_P(OnEach, TheBodysOwnFieldsWinOverIt) {
  auto call = GetParam().decode(
      R"("priority":3,"cache_salt":"own","nvext":{"cache_salt":"other","agent_hints":{"priority":9}})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->request.hints.priority, 3);
  EXPECT_EQ(call->request.hints.cache_salt, "own");
}

TEST_P(OnEach, PrioritiesAreClippedNeverRefusedForTheirSize) {
  EXPECT_EQ(decode(R"({"agent_hints":{"priority":9223372036854775807}})")->request.hints.priority, 1'000'000'000);
  EXPECT_EQ(decode(R"({"agent_hints":{"priority":-1e300}})")->request.hints.priority, -1'000'000'000);
  EXPECT_EQ(decode(R"({"agent_hints":{"latency_sensitivity":1e999}})")->request.hints.latency_sensitivity, 1e9);
  EXPECT_EQ(decode(R"({"agent_hints":{"latency_sensitivity":-3}})")->request.hints.latency_sensitivity, 0);
}

TEST_P(OnEach, PlacementAndSessions) {
  EXPECT_EQ(described(R"({"backend_instance_id":18446744073709551615,"dp_rank":3})"),
            "worker 18446744073709551615\nworker_rank 3\n");
  EXPECT_EQ(described(R"({"decode_worker_id":7})"), "worker 7\n");
  EXPECT_EQ(described(R"({"session_control":{"session_id":"s","action":"close","timeout":300}})"), "session s final\n");
  EXPECT_EQ(described(R"({"agent_context":{"session_type_id":"k","session_id":"s","trajectory_id":"t",)"
                      R"("parent_trajectory_id":"p","trajectory_final":true}})"),
            "session s agent t parent p final\n");
  EXPECT_EQ(described(R"({"session_control":{"session_id":"s","action":null}})"), "session s\n");
}

TEST_P(OnEach, ARemovedCacheMarkIsTheLastBlocks) {
  auto call = decode(R"({"cache_control":{"type":"ephemeral","ttl":"1h"}})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const auto* messages = std::get_if<std::vector<ir::Message>>(&call->request.prompt);
  if (messages == nullptr) return;  // a bare prompt has no blocks
  EXPECT_EQ(messages->back().blocks.back().cache, ir::CacheMark{3600});
}

TEST_P(OnEach, WhatHasNoEffectIsNamed) {
  auto call = decode(
      R"({"use_raw_prompt":true,"token_data":[1,2],"metadata_upload":{"url":"http://127.0.0.1:1/x"},
          "routing_constraints":{"required_taints":["a"],"preferred_taints":{"b":0.5}},"router":{"ttft_target":5},
          "prefill_worker_id":1,"prefill_dp_rank":2,"new_field":{"a":1},"\u001b[2J":0,"agent_hints":{"osl2":1}})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_THAT(call->left_out,
              ElementsAre("nvext.agent_hints.osl2", "nvext.prefill_worker_id", "nvext.prefill_dp_rank",
                          "nvext.use_raw_prompt", "nvext.token_data", "nvext.metadata_upload",
                          "nvext.routing_constraints", "nvext.router", "nvext.new_field", "nvext.\\x1b[2J"));
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"unknown_" + std::to_string(i) + "\":0,";
  call = decode(many + "\"cache_salt\":\"s\"}");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->left_out.size(), 17U);
  EXPECT_EQ(call->left_out.back(), "984 more fields");
}

TEST_P(OnEach, NamesOfUnknownFieldsOfTheBodyAreBounded) {
  auto call = GetParam().decode("\"" + std::string(200, 'x') + "\":1,\"priority\":null");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_THAT(call->left_out, ElementsAre(std::string(64, 'x') + "..."));
}

TEST_P(OnEach, AWrongTypeIsAFaultThatNamesTheField) {
  struct Row {
    const char* nvext;
    const char* param;
  };
  constexpr Row kRows[] = {
      {"[]", "nvext"},
      {"true", "nvext"},
      {R"({"greed_sampling":1})", "nvext.greed_sampling"},
      {R"({"use_raw_prompt":"yes"})", "nvext.use_raw_prompt"},
      {R"({"annotations":"request_id"})", "nvext.annotations"},
      {R"({"annotations":["a",1]})", "nvext.annotations[1]"},
      {R"({"backend_instance_id":"7"})", "nvext.backend_instance_id"},
      {R"({"backend_instance_id":-1})", "nvext.backend_instance_id"},
      {R"({"backend_instance_id":1.5})", "nvext.backend_instance_id"},
      {R"({"backend_instance_id":18446744073709551616})", "nvext.backend_instance_id"},
      {R"({"prefill_worker_id":{}})", "nvext.prefill_worker_id"},
      {R"({"decode_worker_id":[1]})", "nvext.decode_worker_id"},
      {R"({"token_data":[1,"2"]})", "nvext.token_data[1]"},
      {R"({"token_data":7})", "nvext.token_data"},
      {R"({"max_thinking_tokens":-1})", "nvext.max_thinking_tokens"},
      {R"({"max_thinking_tokens":4294967296})", "nvext.max_thinking_tokens"},
      {R"({"cache_salt":7})", "nvext.cache_salt"},
      {R"({"extra_fields":{}})", "nvext.extra_fields"},
      {R"({"metadata_upload":"http://x"})", "nvext.metadata_upload"},
      {R"({"metadata_upload":{"url":1}})", "nvext.metadata_upload.url"},
      {R"({"dp_rank":-1})", "nvext.dp_rank"},
      {R"({"prefill_dp_rank":"1"})", "nvext.prefill_dp_rank"},
      {R"({"agent_hints":[]})", "nvext.agent_hints"},
      {R"({"agent_hints":{"priority":"high"}})", "nvext.agent_hints.priority"},
      {R"({"agent_hints":{"strict_priority":-1}})", "nvext.agent_hints.strict_priority"},
      {R"({"agent_hints":{"osl":1.5}})", "nvext.agent_hints.osl"},
      {R"({"agent_hints":{"speculative_prefill":1}})", "nvext.agent_hints.speculative_prefill"},
      {R"({"agent_hints":{"latency_sensitivity":"1"}})", "nvext.agent_hints.latency_sensitivity"},
      {R"({"request_timestamp_ms":"now"})", "nvext.request_timestamp_ms"},
      {R"({"routing_constraints":[]})", "nvext.routing_constraints"},
      {R"({"routing_constraints":{"required_taints":"a"}})", "nvext.routing_constraints.required_taints"},
      {R"({"routing_constraints":{"preferred_taints":{"a":"b"}}})", "nvext.routing_constraints.preferred_taints.a"},
      {R"({"router":5})", "nvext.router"},
      {R"({"router":{"itl_target":"5"}})", "nvext.router.itl_target"},
      {R"({"cache_control":{"type":"forever"}})", "nvext.cache_control.type"},
      {R"({"cache_control":{"type":"ephemeral","ttl":"2d"}})", "nvext.cache_control.ttl"},
      {R"({"session_control":{"session_id":5}})", "nvext.session_control.session_id"},
      {R"({"session_control":{"action":"explode"}})", "nvext.session_control.action"},
      {R"({"agent_context":{"trajectory_final":"yes"}})", "nvext.agent_context.trajectory_final"},
  };
  for (const Row& row : kRows) {
    const auto call = decode(row.nvext);
    ASSERT_FALSE(call.ok()) << row.nvext;
    EXPECT_EQ(call.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(call.error().param, row.param);
    EXPECT_THAT(call.error().message, HasSubstr(row.param));
  }
}

}  // namespace
}  // namespace kvern::api
