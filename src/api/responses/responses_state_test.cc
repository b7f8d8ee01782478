#include <gtest/gtest.h>

#include <set>

#include "api/responses/input_items.h"
#include "api/responses/response_ids.h"
#include "api/responses/responses.h"
#include "api/testing/describe.h"

namespace kvern::api {
namespace {

namespace bj = boost::json;

constexpr const char* kTwoCalls =
    R"(["start",{"thinking":["hm ","é"]},{"text":["so"]},{"call":["i","exec","{\"q\": \"\u00fc\"}"]},
        {"call":["j","patch","{\"input\": \"l1\\n","l2\"}"]},
        {"end":"tool_calls","prompt":3,"cached":1,"completion":2,"reasoning":1}])";
constexpr const char* kTwoTools = R"("tools":[{"type":"function","name":"exec"},{"type":"custom","name":"patch"}])";

class StatefulResponses : public ::testing::Test {
 protected:
  Result<ResponsesCall> decode(const std::string& body, const ResponsesHistory* history = nullptr,
                               std::uint64_t id = 2) const {
    return dialect_->decode_call(body, {RequestId{id}, std::chrono::seconds(7), "t"}, history);
  }
  StoredTurn turn(const std::string& body, const ResponsesHistory* history = nullptr) const {
    auto call = decode(body, history, 1);
    EXPECT_TRUE(call.ok()) << call.error().message;
    testing::play(bj::parse(kTwoCalls).as_array(), *call->call.encoder);
    StoredTurn out{call->input, {}};
    call->encoder->append_object(out.answer);
    return out;
  }

  ManualClock clock_;
  Seal seal_{Secret(std::string(Seal::kKeyBytes, 'k'))};
  std::unique_ptr<const ResponsesDialect> dialect_ =
      make_responses_dialect(Limits(), {seal_, clock_, ReasoningEvents::kSummary, true});
};

TEST(ResponseIds, NamesAndBack) {
  EXPECT_EQ(response_name(RequestId{0xAB}), "resp_00000000000000ab");
  struct Case {
    const char* name;
    std::optional<std::uint64_t> response;
    std::optional<std::uint64_t> item;
  };
  for (const auto& [name, response, item] : std::initializer_list<Case>{
           {"resp_00000000000000ab", 0xAB, {}},
           {"resp_00000000000000AB", {}, {}},
           {"resp_ab", {}, {}},
           {"resp_00000000000000abc", {}, {}},
           {"resp_00000000000000a ", {}, {}},
           {"", {}, {}},
           {"msg_00000000000000ab_0", {}, 0xAB},
           {"fco_ffffffffffffffff_in12", {}, ~0ULL},
           {"msg_00000000000000ab", {}, {}},
           {"msg_-0000000000000ab_0", {}, {}},
           {"nothing", {}, {}},
       }) {
    EXPECT_EQ(parse_response_name(name).has_value(), response.has_value()) << name;
    if (response) {
      EXPECT_EQ(parse_response_name(name)->value, *response);
    }
    EXPECT_EQ(response_of_item(name).has_value(), item.has_value()) << name;
    if (item) {
      EXPECT_EQ(response_of_item(name)->value, *item);
    }
  }
}

TEST_F(StatefulResponses, WhatIsNeededIsToldOnceAndFirst) {
  const auto call = decode(R"({"previous_response_id":"resp_00000000000000ab","input":[
      {"type":"item_reference","id":"msg_00000000000000cd_0"},{"id":"rs_00000000000000cd_1"},
      {"type":"item_reference","id":"of another"}]})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->needs.previous, RequestId{0xAB});
  EXPECT_EQ(call->needs.references, std::vector<RequestId>{RequestId{0xCD}});
  EXPECT_TRUE(decode(R"({"input":"hi"})")->needs.empty());
  const auto lost = decode(R"({"input":[{"type":"item_reference","id":"of another"}]})");
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().detail, "not_found");
}

TEST_F(StatefulResponses, AReferenceMayNameAnItemOfTheConversationByTheClientsId) {
  const ResponsesHistory history{{turn(R"({"input":[{"id":"mine","role":"user","content":"x"}]})")}, {}};
  const std::string body =
      R"({"previous_response_id":"resp_0000000000000001","input":[{"type":"item_reference","id":"mine"}]})";
  EXPECT_TRUE(decode(body).ok());
  EXPECT_TRUE(decode(body, &history).ok());
}

TEST_F(StatefulResponses, AContinuedPromptIsTheReplayedOne) {
  const std::string tools = std::string(",") + kTwoTools;
  const ResponsesHistory history{{turn(R"({"input":"do it")" + tools + "}")}, {}};
  const std::string added =
      R"({"type":"function_call_output","call_id":"i","output":"a"},{"type":"custom_tool_call_output","call_id":"j","output":"b"})";
  const auto continued =
      decode(R"({"previous_response_id":"resp_0000000000000001","input":[)" + added + "]" + tools + "}", &history);
  ASSERT_TRUE(continued.ok()) << continued.error().message;
  const auto output = bj::serialize(bj::parse(history.turns[0].answer).as_object().at("output").as_array());
  const auto replayed = decode(R"({"input":[{"role":"user","content":"do it"},)" + output.substr(1, output.size() - 2) +
                               "," + added + "]" + tools + "}");
  ASSERT_TRUE(replayed.ok()) << replayed.error().message;
  EXPECT_EQ(continued->call.request.prompt, replayed->call.request.prompt);
  const auto& assistant = std::get<std::vector<ir::Message>>(continued->call.request.prompt).at(1);
  EXPECT_EQ(std::get<ir::Thinking>(assistant.blocks.at(0).content).text, "hm é");
  EXPECT_EQ(std::get<ir::ToolCall>(assistant.blocks.at(2).content).arguments, "{\"q\": \"\xC3\xBC\"}");
  EXPECT_EQ(std::get<ir::ToolCall>(assistant.blocks.at(3).content).arguments, "l1\nl2");
}

TEST_F(StatefulResponses, InputIsKeptWithIdsAndParts) {
  const auto call = decode(R"({"input":[{"role":"user","content":"a\ud800"},{"role":"assistant","content":"b"},
      {"type":"function_call_output","call_id":"c","output":"o"},
      {"type":"message","id":"mine","status":"completed","role":"user","content":[{"type":"input_text","text":"d"}]}]})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(bj::parse(call->input), bj::parse(R"([
      {"id":"msg_0000000000000002_in0","type":"message","status":"completed","role":"user",
       "content":[{"type":"input_text","text":"a�"}]},
      {"id":"msg_0000000000000002_in1","type":"message","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"b","annotations":[]}]},
      {"id":"fco_0000000000000002_in2","type":"function_call_output","call_id":"c","output":"o"},
      {"id":"mine","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"d"}]}])"));
  EXPECT_EQ(decode(R"({"input":"x","store":false})")->input, "") << "nothing is kept of what is not stored";
}

TEST_F(StatefulResponses, ReferencesStandForStoredItems) {
  const StoredTurn one = turn(R"({"input":"do it"})");
  const ResponsesHistory history{{}, {one}};
  const auto call = decode(R"({"input":[{"type":"item_reference","id":"msg_0000000000000001_in0"},
      {"id":"rs_0000000000000001_0"},{"role":"user","content":"on"}]})",
                           &history);
  ASSERT_TRUE(call.ok()) << call.error().message;
  const auto& messages = std::get<std::vector<ir::Message>>(call->call.request.prompt);
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(std::get<ir::Thinking>(messages[1].blocks.at(0).content).text, "hm é");
  EXPECT_EQ(call->input.find("item_reference"), std::string::npos) << "what is stored stands for itself";
  const auto missing = decode(R"({"input":[{"type":"item_reference","id":"msg_0000000000000001_9"}]})", &history);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().detail, "not_found");
}

TEST_F(StatefulResponses, AnEndThatDidNotLeaveCanBeTakenBack) {
  auto call = decode(R"({"input":"x","stream":true})");
  std::string out;
  for (const ir::Event& event :
       std::vector<ir::Event>{ir::Start{}, ir::BlockStart{}, ir::BlockDelta{0, "hi"}, ir::BlockStop{}, ir::End{}}) {
    call->call.encoder->add(0, event, out);
  }
  ASSERT_NE(out.find("event: response.completed"), std::string::npos);
  call->encoder->withdraw(fail(ErrorCode::kUnavailable, "full"), out);
  EXPECT_EQ(out.find("event: response.completed"), std::string::npos);
  std::int64_t sequence = 0;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ")) continue;
    EXPECT_EQ(bj::parse(line.substr(6)).at("sequence_number").as_int64(), sequence++);
  }
  EXPECT_NE(out.find("event: response.failed"), std::string::npos);
  EXPECT_NE(out.find("\"text\":\"hi\""), std::string::npos);
}

TEST_F(StatefulResponses, BackgroundIsQueuedThenRunsThenIsCancelled) {
  auto call = decode(R"({"input":"x","background":true})");
  ASSERT_TRUE(call.ok());
  const auto status = [&] {
    std::string object;
    call->encoder->append_object(object);
    return bj::value_to<std::string>(bj::parse(object).at("status"));
  };
  std::string out;
  call->call.encoder->keep_alive(out);
  EXPECT_EQ(status(), "queued");
  EXPECT_NE(out.find("event: response.queued"), std::string::npos);
  call->call.encoder->add(0, ir::Start{}, out);
  EXPECT_EQ(status(), "in_progress");
  call->encoder->cancel(out);
  EXPECT_EQ(status(), "cancelled");
  std::string lost;
  call->encoder->append_failed(fail(ErrorCode::kEngine, "gone"), lost);
  EXPECT_FALSE(decode(R"({"input":"x","background":true,"store":false})").ok());
}

TEST(FinalEvent, SaysHowTheResponseEnded) {
  for (const auto& [status, event] : {std::pair("completed", "completed"),
                                      {"incomplete", "incomplete"},
                                      {"failed", "failed"},
                                      {"cancelled", "failed"}}) {
    const std::string out = final_event(std::string(R"({"status":")") + status + "\"}", 7);
    EXPECT_TRUE(out.starts_with("event: response." + std::string(event) + "\n")) << out;
    EXPECT_NE(out.find("\"sequence_number\":7}"), std::string::npos);
  }
}

TEST(ListPage, ParametersAreChecked) {
  EXPECT_TRUE(decode_list_page("", "", "").ok());
  EXPECT_EQ(decode_list_page("100", "asc", "x")->limit, 100U);
  for (const char* limit : {"0", "101", "x", "1x", "-1", "99999999999"})
    EXPECT_FALSE(decode_list_page(limit, "", "").ok());
  EXPECT_FALSE(decode_list_page("", "up", "").ok());
}

TEST_F(StatefulResponses, CompactionKeepsTheUsersWordsAndSealsTheRest) {
  const ResponsesHistory history{{turn(R"({"input":"do it"})")}, {}};
  auto call =
      dialect_->decode_compact(R"({"model":"m","input":"and that","previous_response_id":"resp_0000000000000001"})",
                               {RequestId{2}, std::chrono::seconds(7), "t"}, &history);
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(std::get<std::vector<ir::Message>>(call->call.request.prompt).back().role, ir::Role::kUser);
  const auto document = bj::parse(
      testing::play(bj::parse(R"(["start",{"thinking":["no"]},{"text":["the sum"]},{"end":"stop"}])").as_array(),
                    *call->call.encoder));
  const auto& output = document.at("output").as_array();
  ASSERT_EQ(output.size(), 3U);
  const auto sealed = bj::value_to<std::string>(output[2].at("encrypted_content"));
  const auto after = decode(R"({"input":[{"type":"compaction","encrypted_content":")" + sealed + "\"}]}");
  ASSERT_TRUE(after.ok());
  const auto& messages = std::get<std::vector<ir::Message>>(after->call.request.prompt);
  EXPECT_EQ(std::get<ir::Text>(messages.at(0).blocks.at(0).content).text,
            "Summary of the conversation so far:\nthe sum");
  EXPECT_FALSE(dialect_->decode_compact(R"({"input":"x"})", {RequestId{2}, std::chrono::seconds(7)}, &history).ok());
  auto empty =
      dialect_->decode_compact(R"({"model":"m","input":"x"})", {RequestId{2}, std::chrono::seconds(7)}, &history);
  EXPECT_EQ(testing::play(bj::parse(R"(["start",{"end":"stop"}])").as_array(), *empty->call.encoder), "");
}

TEST_F(StatefulResponses, AnIdThatIsGivenTwiceIsKeptOnce) {
  const auto call = decode(R"({"input":[{"role":"user","id":"x","content":"1"},{"role":"user","id":"x","content":"2"},
                                        {"role":"user","id":"x","content":"3"}],"store":true})");
  ASSERT_TRUE(call.ok());
  std::set<std::string> seen;
  ListPage page;
  page.limit = 1;
  for (int pages = 0; pages < 5; ++pages) {
    const auto list = render_input_items(call->input, page, Limits());
    ASSERT_TRUE(list.ok());
    const auto document = bj::parse(*list);
    page.after = bj::value_to<std::string>(document.at("last_id"));
    seen.insert(page.after);
    if (!document.at("has_more").as_bool()) break;
  }
  EXPECT_EQ(seen.size(), 3U);
}

TEST_F(StatefulResponses, APatchWithoutOutputSaysHowItWent) {
  const auto call = decode(R"({"input":[
      {"type":"apply_patch_call","call_id":"c","status":"completed","operation":{"type":"delete_file","path":"a"}},
      {"type":"apply_patch_call_output","call_id":"c","status":"completed"}]})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const auto& messages = std::get<std::vector<ir::Message>>(call->call.request.prompt);
  const auto& result = std::get<ir::ToolResult>(messages.at(1).blocks.at(0).content);
  EXPECT_EQ(std::get<ir::Text>(result.parts.at(0)).text, "completed");
  for (const char* bad : {R"({"type":"apply_patch_call_output","call_id":"c"})",
                          R"({"type":"apply_patch_call_output","call_id":"c","status":5})",
                          R"({"type":"shell_call_output","call_id":"c","status":"completed"})"}) {
    EXPECT_FALSE(decode(std::string(R"({"input":[)") + bad + "]}").ok()) << bad;
  }
}

TEST_F(StatefulResponses, WhatOthersCallMessagesIsInputHere) {
  const auto reply = dialect_->error(invalid("messages", "messages: the model reads text only"), RequestId{1});
  const auto error = bj::parse(reply.body).at("error");
  EXPECT_EQ(error.at("param"), "input");
  EXPECT_EQ(error.at("message"), "input: the model reads text only");
}

}  // namespace
}  // namespace kvern::api
