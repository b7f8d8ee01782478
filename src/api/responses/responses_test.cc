#include "api/responses/responses.h"

#include <gtest/gtest.h>

#include <set>

#include "api/testing/describe.h"
#include "base/testing/source_path.h"

namespace kvern::api {
namespace {

namespace bj = boost::json;

std::string text_of(const bj::value& value) { return bj::value_to<std::string>(value); }

class Responses : public ::testing::Test {
 protected:
  Result<Call> decode(std::string_view body, std::string_view tenant = "default") const {
    return dialect_->decode(body, {RequestId{0xAB}, std::chrono::seconds(7), tenant});
  }
  /// The events of a streamed answer.
  static std::vector<bj::object> events_of(std::string_view out) {
    std::vector<bj::object> events;
    std::istringstream lines{std::string(out)};
    std::string name;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("event: ")) name = line.substr(7);
      if (!line.starts_with("data: ")) continue;
      events.push_back(bj::parse(line.substr(6)).as_object());
      EXPECT_EQ(text_of(events.back().at("type")), name);
    }
    return events;
  }
  std::vector<bj::object> stream(const std::string& body, const char* events) const {
    auto call = decode(body);
    EXPECT_TRUE(call.ok()) << call.error().message;
    return events_of(testing::play(bj::parse(events).as_array(), *call->encoder));
  }
  static std::vector<std::string> names(const std::vector<bj::object>& events) {
    std::vector<std::string> out;
    for (const auto& event : events) out.push_back(text_of(event.at("type")).substr(9));
    return out;
  }
  static const ir::Message& last_message(const Call& call) {
    return std::get<std::vector<ir::Message>>(call.request.prompt).back();
  }

  ManualClock clock_;
  Seal seal_{Secret(std::string(Seal::kKeyBytes, 'k'))};
  std::unique_ptr<const Dialect> dialect_ = make_responses_dialect(Limits(), {seal_, clock_});
};

constexpr const char* kEverything =
    R"(["start",{"thinking":["a\"","\n"]},{"text":["é","x\\"]},{"call":["i","exec","{\"q\":","\"\u00fc\"}"]},
        {"call":["j","patch","{\"input\": \"l1\\n","l2\"}"]},{"call":["k","n__read"]},
        {"end":"tool_calls","prompt":3,"cached":1,"completion":2,"reasoning":1}])";
constexpr const char* kTools =
    R"("tools":[{"type":"function","name":"exec"},{"type":"custom","name":"patch"},
                {"type":"namespace","name":"n","tools":[{"type":"function","name":"read"}]}])";

TEST_F(Responses, Goldens) { testing::check_goldens(*dialect_, source_path("api/responses/golden")); }

TEST_F(Responses, StreamedItemsAreThoseOfTheWholeAnswer) {
  const std::string body = std::string(R"({"input":"hi",)") + kTools;
  const auto events = stream(body + R"(,"stream":true})", kEverything);
  auto whole = decode(body + "}");
  const bj::object document = bj::parse(testing::play(bj::parse(kEverything).as_array(), *whole->encoder)).as_object();

  bj::array done;
  std::map<std::string, std::string> deltas;  // by item
  std::int64_t sequence = 0;
  for (const auto& event : events) {
    EXPECT_EQ(event.at("sequence_number"), sequence++);
    const auto type = text_of(event.at("type"));
    if (type == "response.output_item.added") {
      EXPECT_EQ(event.at("output_index").as_int64(), static_cast<std::int64_t>(done.size())) << "one after the other";
    } else if (type == "response.output_item.done") {
      EXPECT_EQ(event.at("output_index").as_int64(), static_cast<std::int64_t>(done.size()));
      done.push_back(event.at("item"));
    } else if (type.ends_with(".delta")) {
      deltas[text_of(event.at("item_id"))] += text_of(event.at("delta"));
    }
  }
  const bj::object& last = events.back().at("response").as_object();
  EXPECT_EQ(last.at("output"), bj::value(done));
  EXPECT_EQ(last, document) << "a stream ends with the whole answer";
  EXPECT_EQ(last.at("id"), events.front().at("response").at("id"));
  ASSERT_EQ(done.size(), 5U);
  const auto joined = [&](std::size_t i) { return deltas[text_of(done[i].at("id"))]; };
  EXPECT_EQ(joined(0), text_of(done[0].at("summary").at(0).at("text")));
  EXPECT_EQ(joined(0), text_of(done[0].at("content").at(0).at("text")));
  EXPECT_EQ(joined(1), text_of(done[1].at("content").at(0).at("text")));
  EXPECT_EQ(joined(2), text_of(done[2].at("arguments")));
  EXPECT_EQ(joined(3), text_of(done[3].at("input")));
  EXPECT_EQ(joined(4), text_of(done[4].at("arguments")));
  EXPECT_EQ(done[3].at("type"), "custom_tool_call");
  EXPECT_EQ(done[3].at("input"), "l1\nl2");
  EXPECT_EQ(done[4].at("namespace"), "n");
  EXPECT_EQ(done[4].at("arguments"), "{}");
}

TEST_F(Responses, CacheMarksAreReadEverywhereAndClipped) {
  const std::string mark = R"("cache_control":{"type":"ephemeral","ttl":"600s"})";
  auto call = decode(R"({"tools":[{"type":"function","name":"t",)" + mark + R"(}],"input":[
      {"role":"user","content":[{"type":"input_text","text":"a",)" +
                     mark + R"(},{"type":"input_text","text":"b"}]},
      {"type":"function_call","call_id":"c","name":"t","arguments":"{}",)" +
                     mark + R"(},
      {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"o",
        "cache_control":{"type":"ephemeral","ttl":"1h"}}]},
      {"role":"user","content":"z",)" +
                     mark + "}]}");
  ASSERT_TRUE(call.ok());
  const ir::Request& request = call->request;
  EXPECT_EQ(request.tools[0].cache, (ir::CacheMark{600}));
  std::vector<std::uint32_t> marks;  // by block, 0 for none
  for (const ir::Message& message : std::get<std::vector<ir::Message>>(request.prompt)) {
    for (const ir::Block& block : message.blocks) marks.push_back(block.cache ? block.cache->ttl_seconds : 0);
  }
  EXPECT_EQ(marks, (std::vector<std::uint32_t>{600, 0, 600, 600, 0}));
  const std::vector<std::string> told{"input[2].output[0].cache_control clipped to 600 s: longer ones come first",
                                      "input[3].cache_control dropped: a request has at most 4"};
  EXPECT_EQ(call->left_out, told);
  EXPECT_FALSE(decode(R"({"input":[{"role":"user","content":"z","cache_control":{"type":"forever"}}]})").ok());
}

TEST_F(Responses, EventsComeInTheirOrder) {
  const auto events = stream(std::string(R"({"input":"hi","stream":true,)") + kTools + "}", kEverything);
  const std::vector<std::string> wanted{"created",
                                        "in_progress",
                                        "output_item.added",
                                        "reasoning_summary_part.added",
                                        "reasoning_summary_text.delta",
                                        "reasoning_summary_text.delta",
                                        "reasoning_summary_text.done",
                                        "reasoning_summary_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "content_part.added",
                                        "output_text.delta",
                                        "output_text.delta",
                                        "output_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "custom_tool_call_input.delta",
                                        "custom_tool_call_input.delta",
                                        "custom_tool_call_input.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "completed"};
  EXPECT_EQ(names(events), wanted);
}

TEST_F(Responses, ThinkingAsTextWhereAskedFor) {
  const auto raw = make_responses_dialect(Limits(), {seal_, clock_, ReasoningEvents::kText});
  auto call = raw->decode(R"({"input":"hi","stream":true})", {});
  const auto events = events_of(
      testing::play(bj::parse(R"(["start",{"thinking":["a","b"]},{"end":"stop"}])").as_array(), *call->encoder));
  const std::vector<std::string> wanted{"created",
                                        "in_progress",
                                        "output_item.added",
                                        "content_part.added",
                                        "reasoning_text.delta",
                                        "reasoning_text.delta",
                                        "reasoning_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "completed"};
  EXPECT_EQ(names(events), wanted);
  EXPECT_EQ(events[3].at("part").at("type"), "reasoning_text");
  EXPECT_TRUE(events[8].at("item").at("summary").as_array().empty());
}

TEST_F(Responses, EncryptedContentAloneBringsTheThinkingBack) {
  const auto events =
      stream(R"({"input":"hi","stream":true})", R"(["start",{"thinking":["pl","an \"é\""]},{"end":"stop"}])");
  const auto sealed = bj::serialize(events.back().at("response").at("output").at(0).at("encrypted_content"));
  EXPECT_EQ(sealed.find("plan"), std::string::npos);
  const std::string body = R"({"input":[{"type":"reasoning","summary":[],"encrypted_content":)" + sealed + "}]}";
  const auto thinking = [](const Call& call) {
    return std::get<ir::Thinking>(last_message(call).blocks.at(0).content);
  };

  const Seal elsewhere(Secret(std::string(Seal::kKeyBytes, 'k')));
  const auto other = make_responses_dialect(Limits(), {elsewhere, clock_});
  const auto call = other->decode(body, {});
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(thinking(*call), (ir::Thinking{"plan \"é\"", {}, {}}));
  // It is worth more than what stands beside it in the clear.
  const auto both = decode(R"({"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"other"}],
      "content":[{"type":"reasoning_text","text":"other"}],"encrypted_content":)" +
                           sealed + "}]}");
  EXPECT_EQ(thinking(*both).text, "plan \"é\"");
  // Of another tenant it is as good as foreign.
  const auto stolen = decode(body, "bob");
  ASSERT_TRUE(stolen.ok());
  EXPECT_TRUE(std::holds_alternative<ir::RedactedThinking>(last_message(*stolen).blocks.at(0).content));
}

TEST_F(Responses, AllKeysOfTheResponseAreThere) {
  constexpr const char* kKeys[] = {"id",
                                   "object",
                                   "created_at",
                                   "completed_at",
                                   "status",
                                   "incomplete_details",
                                   "model",
                                   "previous_response_id",
                                   "instructions",
                                   "output",
                                   "error",
                                   "tools",
                                   "tool_choice",
                                   "truncation",
                                   "parallel_tool_calls",
                                   "text",
                                   "top_p",
                                   "presence_penalty",
                                   "frequency_penalty",
                                   "top_logprobs",
                                   "temperature",
                                   "reasoning",
                                   "usage",
                                   "max_output_tokens",
                                   "max_tool_calls",
                                   "store",
                                   "background",
                                   "service_tier",
                                   "metadata",
                                   "safety_identifier",
                                   "prompt_cache_key"};
  for (const auto& event : stream(R"({"input":"hi","stream":true})", kEverything)) {
    if (!event.contains("response")) continue;
    const bj::object& response = event.at("response").as_object();
    for (const char* key : kKeys) EXPECT_TRUE(response.contains(key)) << key;
    EXPECT_EQ(response.size(), std::size(kKeys));
  }
}

TEST_F(Responses, EchoedFunctionsHaveAllTheirKeys) {
  auto call = decode(R"({"input":"hi","tools":[{"type":"function","name":"f"},
      {"type":"function","name":"g","strict":true,"description":"d","parameters":{ "type": "object"}},
      {"type":"mcp"}]})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->left_out, (std::vector<std::string>{"tools[2] mcp"}));
  const auto document =
      bj::parse(testing::play(bj::parse(R"([{"end":"stop"}])").as_array(), *call->encoder)).as_object();
  const auto& tools = document.at("tools").as_array();
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0],
            bj::parse(R"({"type":"function","name":"f","description":null,"parameters":null,"strict":null})"));
  EXPECT_EQ(tools[1].at("strict"), true);
}

TEST_F(Responses, FailuresCarryTheCodesClientsActOn) {
  const std::pair<ErrorCode, const char*> cases[] = {{ErrorCode::kContextLength, "context_length_exceeded"},
                                                     {ErrorCode::kOverloaded, "rate_limit_exceeded"},
                                                     {ErrorCode::kInvalidRequest, "invalid_prompt"},
                                                     {ErrorCode::kUnavailable, "server_error"},
                                                     {ErrorCode::kEngine, "server_error"},
                                                     {ErrorCode::kInternal, "server_error"}};
  for (const auto& [code, wanted] : cases) {
    auto call = decode(R"({"input":"hi","stream":true})");
    std::string out;
    Error error = fail(code, "what happened");
    error.retry_after = std::chrono::seconds(3);
    call->encoder->add(0, ir::Start{}, out);
    call->encoder->add(0, ir::Failure{error}, out);
    const auto events = events_of(out);
    ASSERT_EQ(names(events), (std::vector<std::string>{"created", "in_progress", "failed"}));
    const auto& response = events.back().at("response").as_object();
    EXPECT_EQ(response.at("status"), "failed");
    EXPECT_EQ(text_of(response.at("error").at("code")), wanted);
    const auto message = text_of(response.at("error").at("message"));
    EXPECT_NE(message.find("try again in 3s"), std::string::npos) << "Codex reads how long to wait";
    EXPECT_EQ(message.find("what happened") == std::string::npos, code == ErrorCode::kInternal);
  }
}

TEST_F(Responses, OneAssistantMessageForWhatBelongsTogether) {
  const auto call = decode(R"({"input":[{"role":"user","content":"go"},
      {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},
      {"role":"assistant","content":"t"},
      {"type":"function_call","call_id":"a","name":"f","arguments":"{ }"},
      {"type":"function_call","call_id":"b","name":"f","arguments":""},
      {"type":"function_call_output","call_id":"a","output":"1"},
      {"type":"function_call_output","call_id":"b","output":[]},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const auto& messages = std::get<std::vector<ir::Message>>(call->request.prompt);
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1].blocks.size(), 4U);
  EXPECT_EQ(std::get<ir::ToolCall>(messages[1].blocks[2].content).arguments, "{ }");
  EXPECT_EQ(messages[4].role, ir::Role::kAssistant);
}

TEST_F(Responses, ToolsFoundOnTheWayAreCalledByTheirOwnNames) {
  auto call = decode(R"({"stream":true,"input":[{"type":"tool_search_output","call_id":"s","tools":[{"type":"namespace",
      "name":"cal","tools":[{"type":"function","name":"list"},{"type":"custom","name":"note"}]}]}]})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_TRUE(call->request.tools.empty()) << "the head of the prompt stays as it was";
  const auto& result = std::get<ir::ToolResult>(last_message(*call).blocks.at(0).content);
  EXPECT_EQ(std::get<ir::Text>(result.parts.at(0)).text,
            "{\"name\":\"cal__list\"}\n{\"name\":\"cal__note\",\"parameters\":{\"type\": \"object\", \"properties\": "
            "{\"input\": {\"type\": \"string\"}}, \"required\": [\"input\"]}}");
  const auto events = events_of(testing::play(
      bj::parse(R"([{"call":["a","cal__list","{}"]},{"call":["b","cal__note","{\"input\":\"x\"}"]},{"end":"stop"}])")
          .as_array(),
      *call->encoder));
  const auto& output = events.back().at("response").at("output").as_array();
  EXPECT_EQ(output[0].at("name"), "list");
  EXPECT_EQ(output[0].at("namespace"), "cal");
  EXPECT_EQ(output[1].at("type"), "custom_tool_call");
}

TEST_F(Responses, WhatIsKeptIsToldAndNothingIsStored) {
  auto call = decode(R"({"input":"hi","store":true})");
  ASSERT_TRUE(call.ok());
  const auto document =
      bj::parse(testing::play(bj::parse(R"([{"end":"stop"}])").as_array(), *call->encoder)).as_object();
  EXPECT_EQ(document.at("store"), false);
}

}  // namespace
}  // namespace kvern::api
