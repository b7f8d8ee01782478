#include "api/messages/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "api/cache_marks.h"
#include "api/messages/messages_error.h"
#include "api/testing/describe.h"
#include "base/testing/source_path.h"

namespace kvern::api {
namespace {

namespace bj = boost::json;

TEST(Messages, Goldens) {
  testing::check_goldens(*make_messages_dialect(Limits()), source_path("api/messages/golden"));
}

TEST(Messages, ErrorsHaveAnthropicsTypesAndStatuses) {
  struct Row {
    ErrorCode code;
    int status;
    const char* type;
  };
  for (const Row& row :
       {Row{ErrorCode::kInvalidRequest, 400, "invalid_request_error"},
        Row{ErrorCode::kContextLength, 400, "invalid_request_error"},
        Row{ErrorCode::kUnauthorized, 401, "authentication_error"}, Row{ErrorCode::kForbidden, 403, "permission_error"},
        Row{ErrorCode::kNotFound, 404, "not_found_error"}, Row{ErrorCode::kTooLarge, 413, "request_too_large"},
        Row{ErrorCode::kEngine, 500, "api_error"}, Row{ErrorCode::kInternal, 500, "api_error"},
        Row{ErrorCode::kUnavailable, 503, "api_error"}, Row{ErrorCode::kTimeout, 504, "timeout_error"},
        Row{ErrorCode::kOverloaded, 529, "overloaded_error"}}) {
    const Reply reply = messages_error(fail(row.code, "text"), RequestId{7});
    EXPECT_EQ(reply.status, row.status);
    const bj::object body = bj::parse(reply.body).as_object();
    EXPECT_EQ(body.at("type"), "error");
    EXPECT_EQ(body.at("error").at("type"), row.type);
    EXPECT_EQ(body.at("request_id"), "req_0000000000000007");
    const HeaderList::value_type wanted{"request-id", "req_0000000000000007"};
    EXPECT_NE(std::ranges::find(reply.headers, wanted), reply.headers.end());
    const bool waits =
        std::ranges::any_of(reply.headers, [](const auto& header) { return header.first == "retry-after"; });
    EXPECT_EQ(waits, row.status == 503 || row.status == 529);
  }
}

TEST(Messages, TtlsAreThoseOfTheContract) {
  EXPECT_EQ(ttl_seconds("5m"), 300U);
  EXPECT_EQ(ttl_seconds("30m"), 1800U);
  EXPECT_EQ(ttl_seconds("1h"), 3600U);
  EXPECT_EQ(ttl_seconds("1s"), 1U);
  EXPECT_EQ(ttl_seconds("86400s"), 86400U);
  for (const char* text : {"", "s", "0s", "01s", "-1s", "86401s", "99999999999s", "2h", "5 m", "1.5s", "5M"})
    EXPECT_FALSE(ttl_seconds(text)) << text;
}

/// Events of a stream as (type, data); every one has its `event:` line.
std::vector<std::pair<std::string, bj::object>> events_of(const std::string& stream) {
  std::vector<std::pair<std::string, bj::object>> out;
  std::istringstream lines(stream);
  std::string name;
  std::string data;
  std::string blank;
  while (std::getline(lines, name) && std::getline(lines, data) && std::getline(lines, blank)) {
    EXPECT_TRUE(name.starts_with("event: ") && data.starts_with("data: ") && blank.empty()) << name;
    out.emplace_back(name.substr(7), bj::parse(data.substr(6)).as_object());
    EXPECT_EQ(bj::value_to<std::string>(out.back().second.at("type")), out.back().first);
  }
  return out;
}

TEST(Messages, PiecesOfAStreamJoinToTheWholeAnswer) {
  const bj::array events =
      bj::parse(R"([{"start":1,"prompt":9,"cached":4},{"thinking":["a\"","\n\u0001"]},{"text":["é","x\\"]},
      {"call":["i","f","{\"k\":","\"\u00fc\"}"]},{"call":["j","g"]},
      {"end":"tool_calls","prompt":9,"cached":4,"completion":2,"reasoning":1}])")
          .as_array();
  const std::string body = R"({"max_tokens":9,"messages":[{"role":"user","content":"hi"}])";
  const auto dialect = make_messages_dialect(Limits());
  auto streamed = dialect->decode(body + R"(,"stream":true})", {RequestId{1}, {}});
  auto whole = dialect->decode(body + "}", {RequestId{1}, {}});
  ASSERT_TRUE(streamed.ok() && whole.ok());
  const bj::object document = bj::parse(testing::play(events, *whole->encoder)).as_object();

  bj::object message;
  bj::array content;
  std::string input;
  for (const auto& [type, event] : events_of(testing::play(events, *streamed->encoder))) {
    if (type == "message_start") {
      message = event.at("message").as_object();
    } else if (type == "content_block_start") {
      EXPECT_EQ(event.at("index"), content.size());
      content.push_back(event.at("content_block"));
      input.clear();
    } else if (type == "content_block_delta") {
      const bj::object& delta = event.at("delta").as_object();
      bj::object& block = content.back().as_object();
      const std::string kind = bj::value_to<std::string>(delta.at("type"));
      if (kind == "input_json_delta") input += bj::value_to<std::string>(delta.at("partial_json"));
      for (const auto& [delta_kind, field] :
           {std::pair{"text_delta", "text"}, {"thinking_delta", "thinking"}, {"signature_delta", "signature"}}) {
        if (kind != delta_kind) continue;
        block[field] = bj::value_to<std::string>(block.at(field)) + bj::value_to<std::string>(delta.at(field));
      }
    } else if (type == "content_block_stop") {
      if (!input.empty()) content.back().as_object()["input"] = bj::parse(input);
    } else if (type == "message_delta") {
      for (const char* field : {"stop_reason", "stop_sequence"}) message[field] = event.at("delta").at(field);
      message["usage"] = event.at("usage");
    }
  }
  message["content"] = content;
  EXPECT_EQ(message, document);
  EXPECT_EQ(document.at("usage").at("input_tokens"), 5);
  EXPECT_EQ(document.at("usage").at("cache_read_input_tokens"), 4);
}

}  // namespace
}  // namespace kvern::api
