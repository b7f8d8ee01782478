// The table of malformed and extreme bodies, cases/bodies.jsonl: each gets its status, and an envelope that names the
// field and says what is wrong, at once.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <ctime>
#include <fstream>
#include <set>

#include "api/chat/chat.h"
#include "api/completions/completions.h"
#include "api/messages/messages.h"
#include "api/messages/messages_error.h"
#include "api/openai_error.h"
#include "api/responses/responses.h"
#include "api/tokenize/tokenize.h"
#include "base/testing/source_path.h"

namespace kvern::api {
namespace {

namespace bj = boost::json;

std::string text_of(const bj::value& value) { return value.is_null() ? "" : bj::value_to<std::string>(value); }

std::string body_of(const bj::object& one) {
  if (one.contains("raw")) return text_of(one.at("raw"));
  if (one.contains("body")) return bj::serialize(one.at("body"));
  std::string out;
  if (one.contains("hex")) {
    const std::string hex = text_of(one.at("hex"));
    for (std::size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return out;
  }
  for (const bj::value& piece : one.at("repeat").as_array()) {  // text, or [text, times]
    if (piece.is_string()) {
      out += text_of(piece);
      continue;
    }
    const std::string text = text_of(piece.at(0));
    for (std::int64_t i = 0; i < piece.at(1).as_int64(); ++i) out += text;
  }
  return out;
}

std::optional<Error> decode(const std::string& endpoint, std::string_view body) {
  const Limits limits;
  const auto error = [](const auto& result) { return result.ok() ? std::nullopt : std::optional(result.error()); };
  if (endpoint == "chat") return error(make_chat_dialect(limits)->decode(body, {}));
  if (endpoint == "completions") return error(make_completions_dialect(limits)->decode(body, {}));
  if (endpoint == "responses") {
    const ManualClock clock;
    const Seal seal(Secret(std::string(Seal::kKeyBytes, 'k')));
    return error(make_responses_dialect(limits, {seal, clock})->decode(body, {}));
  }
  if (endpoint == "messages") return error(make_messages_dialect(limits)->decode(body, {}));
  if (endpoint == "count_tokens") return error(decode_count_tokens(body, limits, {}));
  if (endpoint == "tokenize") return error(decode_tokenize(body, limits));
  return error(decode_detokenize(body, limits));
}

TEST(Bodies, EachGetsItsAnswer) {
  std::ifstream file(source_path("api/cases/bodies.jsonl"));
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const bj::object one = bj::parse(line).as_object();
    const std::string name = text_of(one.at("name"));
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(text_of(one.at("endpoint")) + name).second) << "the name stands twice";
    const std::string body = body_of(one);
    const std::clock_t begin = std::clock();  // CPU time: other work on the machine does not count
    const auto fault = decode(text_of(one.at("endpoint")), body);
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
    if (one.at("status") == 200) {
      EXPECT_FALSE(fault.has_value()) << fault->message;
      continue;
    }
    ASSERT_TRUE(fault.has_value());
    const std::string endpoint = text_of(one.at("endpoint"));
    const bool anthropic = endpoint == "messages" || endpoint == "count_tokens";
    const Reply reply = anthropic ? messages_error(*fault, {}) : openai_error(*fault);
    EXPECT_EQ(reply.status, one.at("status").as_int64());
    const bj::object error = bj::parse(reply.body).at("error").as_object();
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    // Anthropic's envelope has neither field nor code: they are looked at before they are left out.
    EXPECT_EQ(anthropic ? fault->param : text_of(error.at("param")), text_of(one.at("param"))) << reply.body;
    EXPECT_EQ(anthropic ? fault->detail : text_of(error.at("code")), text_of(one.at("code"))) << reply.body;
    const std::string message = text_of(error.at("message"));
    EXPECT_LT(message.size(), 400U);
    EXPECT_NE(message.find(fault->param), std::string::npos) << message;
    if (one.contains("contains")) {
      EXPECT_NE(message.find(text_of(one.at("contains"))), std::string::npos) << message;
    }
  }
  EXPECT_GE(names.size(), 60U);
}

}  // namespace
}  // namespace kvern::api
