#include "api/chat/chat.h"

#include <gtest/gtest.h>

#include "api/testing/describe.h"
#include "base/testing/source_path.h"
#include "ir/event_grammar.h"

namespace kvern::api {
namespace {

using testing::check_goldens;

Result<Call> decode(std::string_view body) { return make_chat_dialect(Limits())->decode(body, {RequestId{1}, {}}); }

TEST(Chat, Goldens) { check_goldens(*make_chat_dialect(Limits()), source_path("api/chat/golden")); }

TEST(Chat, AbsentModelAndLimitsStayOpen) {
  const auto call = decode(R"({"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.model, "");
  EXPECT_FALSE(call->request.stopping.max_tokens.has_value());
  EXPECT_EQ(call->request.id, RequestId{1});
  EXPECT_FALSE(call->stream);
}

TEST(Chat, TextKeepsNulAndLosesHalfSurrogates) {
  const auto call = decode(R"({"messages":[{"role":"user","content":"a\u0000b\ud800c\ud83d\ude00"}]})");
  ASSERT_TRUE(call.ok());
  const auto& messages = std::get<std::vector<ir::Message>>(call->request.prompt);
  EXPECT_EQ(std::get<ir::Text>(messages[0].blocks[0].content).text, std::string("a\0b\xEF\xBF\xBD"
                                                                                "c😀",
                                                                                11));
}

TEST(Chat, SchemaAndArgumentsKeepTheirExactText) {
  const auto call = decode(R"({"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f",
      "arguments":"{ \"a\" :1.0}"}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{ "b":  1e2,
      "a":[ ] }}}]})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.tools[0].parameters, "{ \"b\":  1e2,\n      \"a\":[ ] }");
  const auto& messages = std::get<std::vector<ir::Message>>(call->request.prompt);
  EXPECT_EQ(std::get<ir::ToolCall>(messages[0].blocks[0].content).arguments, "{ \"a\" :1.0}");
}

TEST(Chat, ThePriorityIsClippedToWhatCanBeNegated) {
  for (const auto& [text, wanted] :
       {std::pair{"9223372036854775807", 1'000'000'000}, {"-1e999", -1'000'000'000}, {"2.9", 2}}) {
    const auto call = decode(std::string(R"({"messages":[{"role":"user","content":"hi"}],"priority":)") + text + "}");
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(call->request.hints.priority, wanted) << text;
  }
}

TEST(Chat, PiecesOfAStreamJoinToTheWholeAnswer) {
  // The same events through both encoders: joined deltas equal the document's fields.
  const boost::json::array events =
      boost::json::parse(
          R"(["start",{"thinking":["a\"","\n\u0001"]},{"text":["é","x\\"]},{"call":["i","f","{\"k\":","\"\u00fc\"}"]},{"call":["j","g"]},
      {"end":"tool_calls","prompt":3,"cached":1,"completion":2,"reasoning":1}])")
          .as_array();
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  auto streamed = decode(body + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  auto whole = decode(body + "}");
  ASSERT_TRUE(streamed.ok() && whole.ok());
  const auto document = boost::json::parse(testing::play(events, *whole->encoder)).as_object();
  const auto& message = document.at("choices").at(0).at("message").as_object();

  std::string content;
  std::string reasoning;
  std::vector<std::string> arguments(2);
  boost::json::value usage;
  std::istringstream lines(testing::play(events, *streamed->encoder));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line == "data: [DONE]") continue;
    ASSERT_TRUE(line.starts_with("data: "));
    const auto chunk = boost::json::parse(line.substr(6)).as_object();
    EXPECT_EQ(chunk.at("id"), document.at("id"));
    if (chunk.at("choices").as_array().empty()) {
      usage = chunk.at("usage");
      continue;
    }
    EXPECT_TRUE(chunk.at("usage").is_null());
    const auto& delta = chunk.at("choices").at(0).at("delta").as_object();
    EXPECT_EQ(delta.contains("role"), count++ == 0);
    if (delta.contains("content")) content += boost::json::value_to<std::string>(delta.at("content"));
    if (delta.contains("reasoning_content")) {
      EXPECT_EQ(content, "") << "reasoning comes first";
      reasoning += boost::json::value_to<std::string>(delta.at("reasoning_content"));
    }
    if (delta.contains("tool_calls")) {
      const auto& call = delta.at("tool_calls").at(0);
      arguments[call.at("index").to_number<std::size_t>()] +=
          boost::json::value_to<std::string>(call.at("function").at("arguments"));
    }
  }
  EXPECT_EQ(content, boost::json::value_to<std::string>(message.at("content")));
  EXPECT_EQ(reasoning, boost::json::value_to<std::string>(message.at("reasoning_content")));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(arguments[i],
              boost::json::value_to<std::string>(message.at("tool_calls").at(i).at("function").at("arguments")));
  }
  EXPECT_EQ(usage, document.at("usage"));
  EXPECT_EQ(usage.at("total_tokens"), 5);
}

}  // namespace
}  // namespace kvern::api
