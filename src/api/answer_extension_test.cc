#include "api/answer_extension.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/testing/dialects.h"
#include "base/json_reader.h"

namespace kvern::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AnswerFacts facts() {
  AnswerFacts out;
  out.worker = "gpu-1";
  out.received = std::chrono::milliseconds(1'700'000'000'123);
  out.first_token_ms = 12.5;
  out.total_ms = 100;
  out.usage.prompt_tokens = 8;
  out.usage.cached_tokens = 6;
  return out;
}

std::string render(const std::vector<std::string>& fields, const AnswerFacts& from = facts()) {
  return render_extension(fields, from);
}

TEST(AnswerExtension, HoldsWhatIsAskedForAndKnown) {
  EXPECT_EQ(render({}), "");
  EXPECT_EQ(render({"engine_data", "routed_experts"}), "");
  EXPECT_EQ(render({"worker_id"}), R"({"worker_id":{"prefill_worker_id":"gpu-1","decode_worker_id":"gpu-1"}})");
  EXPECT_EQ(render({"timing"}), R"({"timing":{"request_received_ms":1700000000123,"ttft_ms":12.500,)"
                                R"("total_time_ms":100.000,"kv_hit_rate":0.7500}})");
  EXPECT_EQ(render({"stop_reason"}), R"({"stop_reason":null})");
  AnswerFacts other = facts();
  other.worker = "18446744073709551615";
  other.stop_string = "\"";
  EXPECT_EQ(render({"stop_reason", "worker_id"}, other),
            R"({"worker_id":{"prefill_worker_id":18446744073709551615,"decode_worker_id":18446744073709551615},)"
            R"("stop_reason":"\""})");
  for (const char* name : {"007", "-1", "1.0", "18446744073709551616"}) {
    other.worker = name;
    EXPECT_THAT(render({"worker_id"}, other), HasSubstr("\"" + std::string(name) + "\"")) << "a name, not a number";
  }
  other.worker.clear();
  EXPECT_EQ(render({"worker_id"}, other), "");
}

TEST(AnswerExtension, AQueryNamesTheWorkerAndTheTokens) {
  EXPECT_EQ(render_query("7", {1, 2}),
            R"({"worker_id":{"prefill_worker_id":7,"decode_worker_id":7},"token_ids":[1,2]})");
  EXPECT_EQ(render_query("", {}), R"({"token_ids":[]})");
}

/// What the dialect writes of an answer with an extension.
std::string answer(const testing::Speaker& speaker, const std::string& more, const std::string& extension) {
  auto call = speaker.decode(more);
  KV_CHECK(call.ok());
  Encoder& encoder = *call->encoder;
  std::string out;
  encoder.add(0, ir::Start{}, out);
  encoder.add(0, ir::BlockStart{}, out);
  encoder.add(0, ir::BlockDelta{0, "text"}, out);
  encoder.add(0, ir::BlockStop{}, out);
  if (!extension.empty()) encoder.set_extension(extension);
  encoder.add(0, ir::End{}, out);
  return out;
}

TEST(AnswerExtension, StandsInTheDocumentOfEachDialect) {
  for (const auto& speaker : testing::speakers()) {
    SCOPED_TRACE(speaker.name);
    const std::string with = answer(speaker, R"("stream":false)", R"({"a":1})");
    const auto document = json::Document::parse(with, {});
    ASSERT_TRUE(document.ok()) << with;
    const auto extension = (*document)->root().find("nvext");
    ASSERT_TRUE(extension.has_value()) << with;
    EXPECT_EQ(extension->raw(), R"({"a":1})");
    EXPECT_THAT(answer(speaker, R"("stream":false)", ""), Not(HasSubstr("nvext")));
  }
}

TEST(AnswerExtension, StandsInTheLastEventOfEachDialectsStream) {
  for (const auto& speaker : testing::speakers()) {
    for (const bool usage : {false, true}) {
      if (usage && speaker.name == "messages") continue;
      SCOPED_TRACE(speaker.name);
      const std::string more = usage ? R"("stream":true,"stream_options":{"include_usage":true})" : R"("stream":true)";
      std::string out = answer(speaker, more, R"({"a":1})");
      const std::string done = "data: [DONE]\n\n";
      if (out.ends_with(done)) out.resize(out.size() - done.size());
      const std::size_t last = out.rfind("data: ");
      ASSERT_NE(last, std::string::npos);
      const std::string event = out.substr(last + 6);
      EXPECT_THAT(event, HasSubstr(R"("nvext":{"a":1})"));
      EXPECT_TRUE(json::Document::parse(event, {}).ok()) << event;
      EXPECT_THAT(out.substr(0, last), Not(HasSubstr("nvext")));
    }
  }
}

}  // namespace
}  // namespace kvern::api
