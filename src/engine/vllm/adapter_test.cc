// What is vLLM's own in the adapter: what is sent, what the fields of its answers mean, and a recorded server. What
// every adapter keeps is in engine/testing/adapter_conformance_test.cc.
#include "base/json_reader.h"
#include "base/testing/source_path.h"
#include "engine/testing/adapter_conformance.h"
#include "engine/vllm/testing/vllm_wire.h"

namespace kvern::engine::testing {
namespace {

/// The adapter with a worker whose one answer is given.
class VllmAdapter : public AdapterConformance {
 protected:
  Heard answered(const std::vector<std::string>& pieces, GenerateRequest request) {
    FakeWorker worker([&](const Asked& asked) {
      asked_ = asked;
      return Plan{pieces};
    });
    start(worker.port());
    return run(std::move(request));
  }
  std::string body_of(GenerateRequest request) {
    answered({sse_head(), vllm_event({5}, "\"length\""), vllm_done()}, std::move(request));
    return asked_.body;
  }
  Asked asked_;
};
INSTANTIATE_TEST_SUITE_P(Own, VllmAdapter, ::testing::Values(vllm_wire()),
                         [](const auto& wire) { return wire.param.name; });

TEST_P(VllmAdapter, SendsWhatTheRequestSaysAndNothingElse) {
  auto one = request(0xabc);
  one.max_tokens = 7;
  one.min_tokens = 2;
  one.ignore_eos = true;
  one.stop_token_ids = {4, 5};
  one.priority = 3;
  one.sampling.temperature = 0;
  one.sampling.top_k = 40;
  one.sampling.seed = 11;
  one.sampling.logit_bias = {{9, -1.5F}};
  one.logprobs = 2;
  one.cache_namespace = "7:default<salt of a client>";
  EXPECT_EQ(
      body_of(one),
      R"({"model":"smol","prompt":[1,2,3],"stream":true,"stream_options":{"include_usage":true},)"
      R"("return_token_ids":true,"skip_special_tokens":false,"spaces_between_special_tokens":false,"n":1,)"
      R"("max_tokens":7,"min_tokens":2,"ignore_eos":true,"stop_token_ids":[4,5],"temperature":0,"top_p":1,"top_k":40,)"
      R"("min_p":0,"presence_penalty":0,"frequency_penalty":0,"repetition_penalty":1,"seed":11,)"
      R"("logit_bias":{"9":-1.5},"logprobs":2,"return_tokens_as_token_ids":true,"priority":-3,)"
      R"("cache_salt":"4dc3e12469b4cd7f4718f6ea2d8e1cbc5b134e86a50f0b8dacecfb8bc9b1bc36"})");
  EXPECT_EQ(asked_.path, "/v1/completions");
  EXPECT_NE(asked_.head.find("x-request-id: req_0000000000000abc\r\n"), std::string::npos);
  EXPECT_EQ(asked_.head.find("authorization"), std::string::npos);
}

TEST_P(VllmAdapter, SaltsAreDigests) {
  auto plain = request(1);
  EXPECT_EQ(body_of(plain).find("cache_salt"), std::string::npos);
  plain.id = RequestId{2};
  plain.cache_namespace = "1:a";
  const std::string a = body_of(plain);
  plain.id = RequestId{3};
  plain.cache_namespace = "1:b";
  EXPECT_NE(a, body_of(plain));
  EXPECT_EQ(a.find("1:a"), std::string::npos);
}

TEST_P(VllmAdapter, TheTokenThatStoppedIsCountedAndNotPartOfTheAnswer) {
  struct Row {
    const char* name;
    std::string last;
    Tokens tokens;
    StopCause cause;
  };
  const std::vector<Row> rows{
      {"EOS", vllm_event({6, kVllmEos}, "\"stop\""), {5, 6}, StopCause::kEos},
      {"a stop token", vllm_event({6, 77}, "\"stop\"", "77"), {5, 6}, StopCause::kStopToken},
      {"a worker that leaves it out", vllm_event({6, 8}, "\"stop\""), {5, 6, 8}, StopCause::kEos},
      {"cut", vllm_event({6, kVllmEos}, "\"length\""), {5, 6, kVllmEos}, StopCause::kLength},
  };
  std::uint64_t id = 0;
  for (const auto& row : rows) {
    const Heard heard = answered({sse_head(), vllm_event({5}), row.last, vllm_usage(3, 3), vllm_done()}, request(++id));
    ASSERT_TRUE(heard.finished) << row.name;
    EXPECT_EQ(heard.tokens, row.tokens) << row.name;
    EXPECT_EQ(heard.finished->cause, row.cause) << row.name;
    EXPECT_EQ(heard.finished->completion_tokens, 3U) << row.name;
  }
}

TEST_P(VllmAdapter, CachedTokensAreToldOrUnknown) {
  const auto run_with = [&](std::uint64_t id, std::string_view details) {
    return answered({sse_head(), vllm_event({5}, "\"length\""), vllm_usage(3, 1, details), vllm_done()}, request(id))
        .finished->cached_tokens;
  };
  EXPECT_EQ(run_with(1, ""), std::nullopt);
  EXPECT_EQ(run_with(2, R"(,"prompt_tokens_details":null)"), std::nullopt);
  EXPECT_EQ(run_with(3, R"(,"prompt_tokens_details":{"cached_tokens":2})"), 2U);
  EXPECT_EQ(run_with(4, R"(,"prompt_tokens_details":{"cached_tokens":99})"), 3U) << "never more than the prompt";
}

TEST_P(VllmAdapter, AWorkerThatOnceToldCachedTokensMeansNoneByNothing) {
  int count = 0;
  FakeWorker worker([&](const Asked&) {
    const char* details = count++ == 0 ? R"(,"prompt_tokens_details":{"cached_tokens":2})" : "";
    return Plan{{sse_head(), vllm_event({5}, "\"length\""), vllm_usage(3, 1, details), vllm_done()}};
  });
  start(worker.port());
  EXPECT_EQ(run(request(1)).finished->cached_tokens, 2U);
  EXPECT_EQ(run(request(2)).finished->cached_tokens, 0U);
}

TEST_P(VllmAdapter, APriorityThatIsRefusedIsLeftOutFromThenOn) {
  std::vector<std::string> bodies;
  FakeWorker worker([&](const Asked& asked) {
    bodies.push_back(asked.body);
    if (asked.body.find("priority") == std::string::npos) return answer({5});
    return Plan{{http_answer(400, R"({"error":{"message":"Got priority -1 but Priority scheduling is not enabled.",)"
                                  R"("type":"BadRequestError","param":null,"code":400}})")}};
  });
  start(worker.port());
  auto one = request(1);
  one.priority = 1;
  EXPECT_EQ(run(one).tokens, (Tokens{5}));
  one.id = RequestId{2};
  EXPECT_EQ(run(one).tokens, (Tokens{5}));
  EXPECT_EQ(bodies.size(), 3U);
}

TEST_P(VllmAdapter, LogProbabilitiesComeByTokenIds) {
  const std::string first = vllm_data(
      R"({"choices":[{"index":0,"text":"x","token_ids":[5],"finish_reason":"length","logprobs":{"text_offset":[0],)"
      R"("token_logprobs":[-2.5],"tokens":["token_id:5"],"top_logprobs":[{"token_id:5":-2.5,"token_id:7":-0.5,)"
      R"("token_id:8":-1.0}]}}]})");
  auto one = request(1);
  one.logprobs = 2;
  const Heard heard = answered({sse_head(), first, vllm_done()}, one);
  ASSERT_TRUE(heard.finished);
  ASSERT_EQ(heard.logprobs.size(), 1U);
  EXPECT_EQ(heard.logprobs[0].logprob, -2.5F);
  EXPECT_EQ(heard.logprobs[0].top, (std::vector<std::pair<TokenId, float>>{{7, -0.5F}, {8, -1.0F}}));
  one.id = RequestId{2};
  EXPECT_TRUE(answered({sse_head(), vllm_event({5}, "\"length\""), vllm_done()}, one).failed)
      << "asked for, but not there";
}

TEST_P(VllmAdapter, AFailureInTheMiddleIsInOurWords) {
  const Heard heard =
      answered({sse_head(), vllm_event({5}),
                vllm_data(R"({"error":{"message":"CUDA at /opt/x","type":"Internal","code":500}})"), vllm_done()},
               request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kEngine);
  EXPECT_EQ(heard.failed->message.find("CUDA"), std::string::npos);
}

TEST_P(VllmAdapter, TextWithoutTokenIdsIsOfNoUse) {
  const Heard heard =
      answered({sse_head(), vllm_data(R"({"choices":[{"index":0,"text":"hi","token_ids":null}]})")}, request(1));
  ASSERT_TRUE(heard.failed);
  EXPECT_EQ(heard.failed->code, ErrorCode::kUnavailable);
}

TEST_P(VllmAdapter, SeveralEventsOfOneReadAreOneCall) {
  const Heard heard = answered({sse_head() + vllm_event({5}) + vllm_event({6}) + vllm_event({7}) +
                                vllm_event({8}, "\"length\"") + vllm_usage(3, 4) + vllm_done()},
                               request(1));
  EXPECT_EQ(heard.tokens.size(), 4U);
  EXPECT_EQ(sink_->batches(), 1U);
}

TEST_P(VllmAdapter, ARecordedServerIsUnderstoodByteForByte) {
  const std::string path = source_path("engine/vllm/recordings/vllm-0.32-http.jsonl");
  std::FILE* const file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr);
  std::string text;
  char buffer[65536];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
  std::fclose(file);
  std::uint64_t id = 0;
  std::size_t streams = 0;
  std::size_t refusals = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const auto document = json::Document::parse(line, {});
    ASSERT_TRUE(document.ok());
    const json::Value call = (*document)->root();
    if (call.find("path")->string() != "/v1/completions" || !call.find("request")->is(json::Kind::kObject)) continue;
    const json::Value asked = *call.find("request");
    const auto prompt = asked.find("prompt");
    if (!prompt || !prompt->is(json::Kind::kArray)) continue;

    auto one = request(++id);
    one.prompt.clear();
    for (const auto& child : prompt->children()) one.prompt.push_back(static_cast<TokenId>(*child.value.integer()));
    const auto max_tokens = asked.find("max_tokens");
    one.max_tokens = max_tokens ? static_cast<std::uint32_t>(*max_tokens->integer()) : 16;
    std::vector<std::string> pieces;
    Tokens expected;
    bool has_ids = false;
    if (const auto lines = call.find("lines")) {
      ++streams;
      pieces.push_back(sse_head());
      std::string held;
      for (const auto& child : lines->children()) {
        held += child.value.string();
        if (!held.ends_with("\n\n")) continue;
        pieces.push_back(chunk(held));
        const std::size_t ids = held.find("\"token_ids\":[");
        if (ids != std::string::npos) {
          has_ids = true;
          expected.push_back(static_cast<TokenId>(std::stol(held.substr(held.rfind("\"token_ids\":[") + 13))));
        }
        held.clear();
      }
      pieces.emplace_back(kLastChunk);
    } else {
      pieces.push_back(http_answer(static_cast<int>(*call.find("status")->integer()), call.find("body")->string()));
    }
    const std::string name = call.find("name")->string();
    const Heard heard = answered(pieces, one);
    EXPECT_TRUE(heard.in_order()) << name;
    if (has_ids) {
      EXPECT_EQ(heard.tokens, expected) << name;
      ASSERT_TRUE(heard.finished) << name;
      EXPECT_EQ(heard.finished->cause, StopCause::kLength) << name;
      EXPECT_EQ(heard.finished->completion_tokens, one.max_tokens) << name;
    } else {
      ++refusals;
      ASSERT_TRUE(heard.failed) << name;
      if (name == "err-too-long") {
        EXPECT_EQ(heard.failed->code, ErrorCode::kContextLength);
      }
    }
  }
  EXPECT_EQ(streams, 4U);
  EXPECT_GE(refusals, 5U);
}

}  // namespace
}  // namespace kvern::engine::testing
