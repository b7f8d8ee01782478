#include "api/openai_logprobs.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

namespace kvern::api {
namespace {

std::string chat(const std::vector<ir::TokenLogprob>& tokens) {
  std::string out = "[";
  append_chat_logprobs(tokens, out);
  return out + "]";
}

std::string completion(const std::vector<ir::TokenLogprob>& tokens) {
  CompletionLogprobs logprobs;
  logprobs.add(tokens);
  std::string out;
  logprobs.take(out);
  return out;
}

TEST(OpenaiLogprobs, ChatHasBytesAndAlternatives) {
  EXPECT_EQ(chat({}), "[]");
  EXPECT_EQ(chat({{"a\"", -0.5F, {{"b", -0.25F}, {"a\"", -0.5F}}}, {"é", -1.0F, {}}}),
            R"([{"token":"a\"","logprob":-0.5,"bytes":[97,34],"top_logprobs":[)"
            R"({"token":"b","logprob":-0.25,"bytes":[98]},{"token":"a\"","logprob":-0.5,"bytes":[97,34]}]},)"
            R"({"token":"é","logprob":-1,"bytes":[195,169],"top_logprobs":[]}])");
}

TEST(OpenaiLogprobs, BytesThatAreNoTextAreShownAsSuch) {
  const std::pair<std::string, std::string> cases[] = {
      {"\xF0\x9F", R"("\\xF0\\x9F")"}, {"a\x80é\xFF\n", R"("a\\x80é\\xFF\n")"}, {std::string("\0", 1), R"("\u0000")"}};
  for (const auto& [bytes, shown] : cases) {
    EXPECT_NE(chat({{bytes, 0, {}}}).find("\"token\":" + shown), std::string::npos) << shown;
    EXPECT_NE(completion({{bytes, 0, {}}}).find("\"tokens\":[" + shown), std::string::npos) << shown;
  }
}

TEST(OpenaiLogprobs, EveryNumberIsJson) {
  using Limit = std::numeric_limits<float>;
  const std::pair<float, std::string> cases[] = {
      {-Limit::infinity(), "-9999"}, {Limit::quiet_NaN(), "-9999"}, {-1e30F, "-9999"}, {0.0F, "0"}, {-0.0F, "0"},
      {Limit::infinity(), "0"},      {-2.532154F, "-2.532154"},     {-1e-7F, "-1e-07"}};
  for (const auto& [value, shown] : cases) {
    EXPECT_NE(chat({{"a", value, {}}}).find("\"logprob\":" + shown + ","), std::string::npos) << shown;
    boost::json::parse(completion({{"a", value, {{"b", value}}}}));
  }
}

TEST(OpenaiLogprobs, CompletionsTellTheChosenTokenAmongTheLikeliest) {
  EXPECT_EQ(completion({{"a", -3.0F, {{"b", -0.5F}}}, {"b", -0.5F, {{"b", -0.5F}, {"b", -4.0F}}}, {"c", -1.0F, {}}}),
            R"({"text_offset":[0,1,2],"token_logprobs":[-3,-0.5,-1],"tokens":["a","b","c"],)"
            R"("top_logprobs":[{"b":-0.5,"a":-3},{"b":-0.5},{"c":-1}]})");
}

TEST(OpenaiLogprobs, OffsetsCountCharactersOverAllPieces) {
  CompletionLogprobs logprobs;
  std::string out;
  const std::vector<ir::TokenLogprob> first{{"é", 0, {}}, {"\xF0\x9F", 0, {}}, {"\x98\x80", 0, {}}};
  logprobs.add(first);
  logprobs.take(out);
  EXPECT_EQ(boost::json::parse(out).at("text_offset"), boost::json::parse("[0,1,2]"));
  out.clear();
  const std::vector<ir::TokenLogprob> second{{"x", 0, {}}};
  logprobs.add(second);
  logprobs.take(out);
  EXPECT_EQ(boost::json::parse(out).at("text_offset"), boost::json::parse("[2]"));
}

}  // namespace
}  // namespace kvern::api
