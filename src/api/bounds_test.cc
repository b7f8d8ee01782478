// Each limit of the table on each dialect: what is just within it is taken, one more is a refusal that names the limit.
// A limit that a dialect has nothing for says so here, so none is forgotten.
#include "api/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "api/decode_call.h"
#include "api/testing/dialects.h"

namespace kvern::api {
namespace {

using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

std::string joined(const Strings& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += (out.empty() ? "" : ",") + piece;
  return out;
}
std::string times(std::size_t count, const std::string& piece) { return joined(Strings(count, piece)); }
std::string text(std::size_t bytes) { return std::string(bytes, 'x'); }
/// Members "a0": value, "a1": ...
std::string members(std::size_t count, const std::string& value, const std::string& key = "a") {
  Strings out;
  for (std::size_t i = 0; i < count; ++i) out.push_back("\"" + key + std::to_string(i) + "\":" + value);
  return joined(out);
}

/// The least body of a dialect, with more members.
struct Body {
  std::string dialect;

  std::string with(const std::string& more) const {
    const std::string prompt = dialect == "completions" ? R"("prompt":"hi")"
                               : dialect == "responses" ? R"("input":"hi")"
                                                        : R"("messages":[{"role":"user","content":"hi"}])";
    return whole(prompt + "," + more);
  }
  std::string whole(const std::string& all) const {
    const bool has_length = all.find("\"max_tokens\"") != std::string::npos;
    return "{" + all + (dialect == "messages" && !has_length ? R"(,"max_tokens":50)" : "") + "}";
  }
  /// Messages, or items, as JSON.
  std::string conversation(const std::string& turns) const {
    return whole((dialect == "responses" ? R"("input":[)" : R"("messages":[)") + turns + "]");
  }
  std::string user(const std::string& content) const {
    return R"({"role":"user","content":)" + content + (dialect == "responses" ? R"(,"type":"message"})" : "}");
  }
  std::string part() const {
    return dialect == "responses" ? R"({"type":"input_text","text":"x"})" : R"({"type":"text","text":"x"})";
  }
  std::string tool(const std::string& name, const std::string& description, const std::string& schema) const {
    const std::string facts = R"("name":")" + name + R"(","description":")" + description + R"(",)";
    if (dialect == "messages") return "{" + facts + R"("input_schema":)" + schema + "}";
    if (dialect == "responses") return R"({"type":"function",)" + facts + R"("parameters":)" + schema + "}";
    return R"({"type":"function","function":{)" + facts + R"("parameters":)" + schema + "}}";
  }
  std::string tools(const std::string& list) const { return with(R"("tools":[)" + list + "]"); }
  /// A turn with calls of one tool, and a message behind.
  std::string calls(std::size_t count, const std::string& id, const std::string& name) const {
    if (dialect == "responses") {
      return conversation(user("\"hi\"") + "," +
                          times(count, R"({"type":"function_call","call_id":")" + id + R"(","name":")" + name +
                                           R"(","arguments":"{}"})"));
    }
    if (dialect == "messages") {
      return conversation(
          user("\"hi\"") + R"(,{"role":"assistant","content":[)" +
          times(count, R"({"type":"tool_use","id":")" + id + R"(","name":")" + name + R"(","input":{}})") + "]}," +
          user("\"go on\""));
    }
    return conversation(user("\"hi\"") + R"(,{"role":"assistant","tool_calls":[)" +
                        times(count, R"({"type":"function","id":")" + id + R"(","function":{"name":")" + name +
                                         R"(","arguments":"{}"}})") +
                        "]}," + user("\"go on\""));
  }
};

struct Row {
  Limit limit;
  std::uint64_t most;  // what the limit is set to
  /// A body with so much of what the limit counts.
  std::function<std::string(const Body&, std::size_t)> make;
  std::set<std::string> absent = {};  // dialects that have nothing of the kind
  std::size_t slack = 0;              // what else of the body counts
};

const std::set<std::string> kOnlyBare{"completions"};  // has no conversation
const std::set<std::string> kNotMessages{"messages"};

std::string schema(std::size_t bytes) { return R"({"a":")" + text(bytes - 8) + "\"}"; }

std::vector<Row> rows() {
  return {
      {Limit::kBodyBytes, 400,
       [](const Body& body, std::size_t n) {
         const std::string least = body.with(R"("x":"")");
         return body.with(R"("x":")" + text(n - least.size()) + "\"");
       }},
      {Limit::kJsonDepth, 20,
       [](const Body& body, std::size_t n) {
         return body.with("\"x\":" + std::string(n - 1, '[') + std::string(n - 1, ']'));
       }},
      {Limit::kJsonValues,
       1000,
       [](const Body& body, std::size_t n) { return body.with("\"x\":[" + times(n, "0") + "]"); },
       {},
       40},
      {Limit::kJsonMembers, 30,
       [](const Body& body, std::size_t n) { return body.with("\"x\":{" + members(n, "0") + "}"); }},
      {Limit::kModelBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("model":")" + text(n) + "\""); }},
      {Limit::kMessages, 3,
       [](const Body& body, std::size_t n) { return body.conversation(times(n, body.user("\"x\""))); }, kOnlyBare},
      {Limit::kParts, 3,
       [](const Body& body, std::size_t n) { return body.conversation(body.user("[" + times(n, body.part()) + "]")); },
       kOnlyBare},
      {Limit::kNameBytes,
       9,
       [](const Body& body, std::size_t n) {
         if (body.dialect == "responses") {
           return body.with(R"("text":{"format":{"type":"json_schema","schema":{},"name":")" + text(n) + "\"}}");
         }
         return body.conversation(R"({"role":"user","content":"x","name":")" + text(n) + "\"}");
       },
       {"completions", "messages"}},
      {Limit::kToolCalls, 3, [](const Body& body, std::size_t n) { return body.calls(n, "c", "f"); }, kOnlyBare},
      {Limit::kIdBytes, 9, [](const Body& body, std::size_t n) { return body.calls(1, text(n), "f"); }, kOnlyBare},
      {Limit::kToolNameBytes, 9, [](const Body& body, std::size_t n) { return body.calls(1, "c", text(n)); },
       kOnlyBare},
      {Limit::kTools, 3,
       [](const Body& body, std::size_t n) {
         Strings tools;
         for (std::size_t i = 0; i < n; ++i) tools.push_back(body.tool("f" + std::to_string(i), "", "{}"));
         return body.tools(joined(tools));
       },
       kOnlyBare},
      {Limit::kToolNameBytes, 9,
       [](const Body& body, std::size_t n) { return body.tools(body.tool(text(n), "", "{}")); }, kOnlyBare},
      {Limit::kToolDescriptionBytes, 9,
       [](const Body& body, std::size_t n) { return body.tools(body.tool("f", text(n), "{}")); }, kOnlyBare},
      {Limit::kToolSchemaBytes, 20,
       [](const Body& body, std::size_t n) { return body.tools(body.tool("f", "", schema(n))); }, kOnlyBare},
      {Limit::kToolSchemaBytes, 20,
       [](const Body& body, std::size_t n) {
         if (body.dialect == "messages")
           return body.with(R"("output_config":{"format":{"type":"json_schema","schema":)" + schema(n) + "}}");
         if (body.dialect == "chat") {
           return body.with(R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":)" +
                            schema(n) + "}}");
         }
         return body.with(R"("text":{"format":{"type":"json_schema","name":"a","schema":)" + schema(n) + "}}");
       },
       kOnlyBare},
      {Limit::kChoices,
       3,
       [](const Body& body, std::size_t n) { return body.with("\"n\":" + std::to_string(n)); },
       {"responses", "messages"}},
      {Limit::kChoices,
       3,
       [](const Body& body, std::size_t n) { return body.whole(R"("prompt":[)" + times(n, "\"a\"") + "]"); },
       {"chat", "responses", "messages"}},
      {Limit::kStopStrings, 3,
       [](const Body& body, std::size_t n) {
         return body.with((body.dialect == "messages" ? R"("stop_sequences":[)" : R"("stop":[)") + times(n, "\"x\"") +
                          "]");
       }},
      {Limit::kStopBytes, 9,
       [](const Body& body, std::size_t n) {
         return body.with((body.dialect == "messages" ? R"("stop_sequences":[")" : R"("stop":[")") + text(n) + "\"]");
       }},
      {Limit::kStopTokenIds, 3,
       [](const Body& body, std::size_t n) { return body.with(R"("stop_token_ids":[)" + times(n, "1") + "]"); },
       kNotMessages},
      {Limit::kTopLogprobs, 3,
       [](const Body& body, std::size_t n) {
         const std::string count = std::to_string(n);
         if (body.dialect == "chat") return body.with(R"("logprobs":true,"top_logprobs":)" + count);
         return body.with((body.dialect == "responses" ? R"("top_logprobs":)" : R"("logprobs":)") + count);
       },
       kNotMessages},
      {Limit::kLogitBias, 3,
       [](const Body& body, std::size_t n) { return body.with(R"("logit_bias":{)" + members(n, "1", "1") + "}"); },
       kNotMessages},
      {Limit::kMaxTokens, 60,
       [](const Body& body, std::size_t n) {
         return body.with((body.dialect == "responses" ? R"("max_output_tokens":)" : R"("max_tokens":)") +
                          std::to_string(n));
       }},
      {Limit::kMinTokens, 30,
       [](const Body& body, std::size_t n) { return body.with(R"("min_tokens":)" + std::to_string(n)); }, kNotMessages},
      {Limit::kPromptTokens, 3,
       [](const Body& body, std::size_t n) { return body.with(R"("nvext":{"token_data":[)" + times(n, "1") + "]}"); }},
      {Limit::kPromptTokens,
       3,
       [](const Body& body, std::size_t n) { return body.whole(R"("prompt":[)" + times(n, "1") + "]"); },
       {"chat", "responses", "messages"}},
      {Limit::kMetadataEntries, 3,
       [](const Body& body, std::size_t n) { return body.with(R"("metadata":{)" + members(n, "\"v\"") + "}"); }},
      {Limit::kMetadataKeyBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("metadata":{")" + text(n) + R"(":"v"})"); }},
      {Limit::kMetadataValueBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("metadata":{"k":")" + text(n) + "\"}"); }},
      {Limit::kTemplateOptions, 3,
       [](const Body& body, std::size_t n) { return body.with(R"("chat_template_kwargs":{)" + members(n, "1") + "}"); },
       kOnlyBare},
      {Limit::kTemplateOptionBytes, 9,
       [](const Body& body, std::size_t n) {
         return body.with(R"("chat_template_kwargs":{"k":")" + text(n - 2) + "\"}");
       },
       kOnlyBare},
      {Limit::kIdBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("prompt_cache_key":")" + text(n) + "\""); }},
      {Limit::kIdBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("cache_salt":")" + text(n) + "\""); }},
      {Limit::kIdBytes, 9,
       [](const Body& body, std::size_t n) { return body.with(R"("nvext":{"cache_salt":")" + text(n) + "\"}"); }},
      {Limit::kHintEntries, 3,
       [](const Body& body, std::size_t n) {
         return body.with(R"("nvext":{"annotations":[)" + times(n, "\"a\"") + "]}");
       }},
      {Limit::kHintEntries, 3,
       [](const Body& body, std::size_t n) {
         return body.with(R"("nvext":{"extra_fields":[)" + times(n, "\"a\"") + "]}");
       }},
  };
}

/// Held by the HTTP server, before there is a body (tests of net/ and tests/e2e).
const std::set<Limit> kOfTheServer{Limit::kHeaderBytes,      Limit::kHeaderFields,   Limit::kHeaderDeadlineMs,
                                   Limit::kBodyDeadlineMs,   Limit::kIdleDeadlineMs, Limit::kWriteDeadlineMs,
                                   Limit::kWriteBufferBytes, Limit::kConnections};

class OnEachDialect : public ::testing::TestWithParam<testing::Speaker> {};
INSTANTIATE_TEST_SUITE_P(Bounds, OnEachDialect, ::testing::ValuesIn(testing::speakers()),
                         [](const auto& about) { return about.param.name; });

TEST_P(OnEachDialect, EachLimitHolds) {
  const Body body{GetParam().name};
  for (const Row& row : rows()) {
    if (row.absent.contains(body.dialect)) continue;
    const LimitRow& about = limit_table()[static_cast<std::size_t>(row.limit)];
    SCOPED_TRACE(about.key);
    Limits limits;
    ASSERT_TRUE(limits.set(about.key, row.most).ok());
    const auto dialect = GetParam().make(limits);
    const auto decode = [&](std::size_t amount) {
      return decode_call(*dialect, row.make(body, amount), {}, {RequestId{1}, {}, "default"}, limits, true);
    };
    const auto within = decode(row.most - row.slack);
    EXPECT_TRUE(within.ok()) << within.error().message;
    const auto over = decode(row.most + 1);
    ASSERT_FALSE(over.ok());
    EXPECT_EQ(over.error().code, about.code);
    EXPECT_THAT(over.error().message, HasSubstr(std::to_string(row.most)));
  }
}

TEST(Bounds, EveryLimitIsTestedOnEveryDialectOrSaidToBeAbsent) {
  std::set<Limit> tested;
  for (const Row& row : rows()) tested.insert(row.limit);
  for (const LimitRow& row : limit_table()) {
    EXPECT_NE(tested.contains(row.limit), kOfTheServer.contains(row.limit)) << row.key;
  }
}

TEST(Bounds, IdsInHeadersToo) {
  Limits limits;
  ASSERT_TRUE(limits.set("id_bytes", 9).ok());
  for (const auto& speaker : testing::speakers()) {
    const auto dialect = speaker.make(limits);
    const auto decode = [&](std::size_t amount) {
      return decode_call(*dialect, speaker.body(R"("top_p":1)"), {{"x-session-id", text(amount)}},
                         {RequestId{1}, {}, "default"}, limits, true);
    };
    EXPECT_TRUE(decode(9).ok()) << speaker.name;
    EXPECT_FALSE(decode(10).ok()) << speaker.name;
  }
}

/// What a dialect would forget to check is held by the ir's own bounds.
TEST(Bounds, TheIrIsHeldWhateverMadeIt) {
  Limits limits;
  for (const char* key : {"messages", "tools", "stop_strings", "parts", "id_bytes"})
    ASSERT_TRUE(limits.set(key, 2).ok());
  const auto fault = [&](const auto& change) {
    ir::Request request;
    change(request);
    const auto error = check_bounds(request, limits);
    return error ? error->param : std::string();
  };
  EXPECT_EQ(fault([](ir::Request&) {}), "");
  EXPECT_EQ(fault([](ir::Request& request) { request.prompt = std::vector<ir::Message>(4); }), "messages");
  EXPECT_EQ(fault([](ir::Request& request) { request.tools.resize(3); }), "tools");
  EXPECT_EQ(fault([](ir::Request& request) { request.tools = {ir::Tool{.name = "t"}, ir::Tool{.name = "t"}}; }),
            "tools");
  EXPECT_EQ(fault([](ir::Request& request) { request.tools = {ir::Tool{.name = "t"}, ir::Tool{.name = "u"}}; }), "");
  EXPECT_EQ(fault([](ir::Request& request) { request.stopping.strings.resize(3); }), "stop");
  EXPECT_EQ(fault([](ir::Request& request) { request.hints.cache_salt = "abc"; }), "cache_salt");
  EXPECT_EQ(fault([](ir::Request& request) {
              ir::ToolResult result;
              result.parts.resize(3);
              request.prompt = std::vector<ir::Message>{{ir::Role::kTool, "", {{result, std::nullopt}}}};
            }),
            "content");
}

}  // namespace
}  // namespace kvern::api
