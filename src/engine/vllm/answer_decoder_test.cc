// The decoder alone: every split of the bytes gives the same, the echo of a long prompt is not kept, bounds hold.
#include "engine/vllm/answer_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kvern::engine {
namespace {

constexpr std::uint32_t kVocabSize = 100'000;

AnswerDecoderOptions options(std::uint32_t max_tokens = 100) {
  AnswerDecoderOptions options;
  options.id = RequestId{1};
  options.worker = "w";
  options.prompt_tokens = 4;
  options.max_tokens = max_tokens;
  options.vocab_size = kVocabSize;
  return options;
}

/// All that came, as text.
std::string told(const std::vector<EngineEvent>& events) {
  std::string out;
  for (const auto& event : events) {
    if (const auto* accepted = std::get_if<Accepted>(&event.body)) {
      out += fmt::format("accepted {} {}; ", accepted->prompt_tokens, accepted->worker);
    } else if (const auto* output = std::get_if<Output>(&event.body)) {
      for (const TokenId token : output->tokens) out += fmt::format("{} ", token);
      out += "; ";
    } else if (const auto* finished = std::get_if<Finished>(&event.body)) {
      out += fmt::format("finished {} {} cached {}", static_cast<int>(finished->cause), finished->completion_tokens,
                         finished->cached_tokens ? std::to_string(*finished->cached_tokens) : "?");
    } else {
      out += fmt::format("failed {}", std::get<Failed>(event.body).error.message);
    }
  }
  return out;
}

std::string decode(std::string_view bytes, const std::function<std::size_t(std::size_t)>& cut,
                   std::uint32_t max_tokens = 100) {
  AnswerDecoder decoder(options(max_tokens));
  std::vector<EngineEvent> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min(cut(at), bytes.size() - at);
    decoder.feed(bytes.substr(at, size), events);
    at += size;
  }
  decoder.end(events);
  return told(events);
}

std::string whole(std::string_view bytes, std::uint32_t max_tokens = 100) {
  return decode(bytes, [&](std::size_t) { return bytes.size(); }, max_tokens);
}

std::string event(std::string_view ids, std::string_view finish = "null", std::string_view echo = "null") {
  return fmt::format(R"(data: {{"id":"c","choices":[{{"index":0,"text":"\"a]\\","logprobs":null,"finish_reason":{},)"
                     R"("stop_reason":null,"prompt_token_ids":{},"token_ids":{}}}]}})"
                     "\n\n",
                     finish, echo, ids);
}

const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"total_tokens\":7,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

std::string long_echo() {
  std::string ids = "[";
  for (int i = 0; i < 3000; ++i) ids += fmt::format("{}{}", i == 0 ? "" : ",", i);
  return ids + "]";
}

TEST(AnswerDecoder, EverySplitSaysTheSame) {
  const std::string bytes = ": comment\r\n" + event("[5]", "null", long_echo()) + "event: x\n" + event("[6,7]") +
                            event("[8]", "\"length\"") + kUsage + kDone;
  const std::string expected = "accepted 4 w; 5 ; 6 7 ; 8 ; finished 2 4 cached 2";
  EXPECT_EQ(whole(bytes), expected);
  for (const std::size_t size : {1, 2, 3, 5, 7, 64, 1000, 4095, 4096, 4097, 5000}) {
    EXPECT_EQ(decode(bytes, [&](std::size_t) { return size; }), expected) << size;
  }
  for (std::size_t cut = 1; cut < bytes.size(); cut += cut < 300 || cut + 900 > bytes.size() ? 1 : 97) {
    EXPECT_EQ(decode(bytes, [&](std::size_t at) { return at == 0 ? cut : bytes.size(); }), expected) << cut;
  }
}

TEST(AnswerDecoder, ALongLineSaysTheSameInOnePieceAndInMany) {
  const std::string filling(5000, 'x');
  const std::string answer = event("1", R"("length")") + "data: [DONE]\n\n";
  const std::string lines[] = {
      "note: " + filling + R"("prompt_token_ids":[1)" + "\n",     // no data, so nothing of it counts
      "data: " + filling + R"("prompt_token_ids":[1)" + "\n1],",  // an echo that never closes
      R"(data: {"x":")" + filling + R"(","prompt_token_ids":[1,2]})" + "\n\n",
  };
  for (const auto& line : lines) {
    const std::string bytes = line + answer;
    for (const std::size_t step : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{5025}}) {
      EXPECT_EQ(decode(bytes, [&](std::size_t) { return step; }), whole(bytes)) << line.substr(0, 6) << step;
    }
  }
}

TEST(AnswerDecoder, EndsOnceWhateverSaysSo) {
  const std::string last = event("[5]", "\"stop\"");
  const std::string expected = "accepted 4 w; 5 ; finished 0 1 cached ?";
  EXPECT_EQ(whole(last + kDone + kDone + event("[6]")), expected);
  EXPECT_EQ(whole(last), expected) << "the body ended in order";
  EXPECT_EQ(whole(event("[]", "\"stop\"") + kDone), "accepted 4 w; finished 0 0 cached ?");
}

TEST(AnswerDecoder, RefusesWhatIsNoAnswer) {
  const std::string understood = "failed The worker's answer cannot be understood.";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"data: {\n\n", understood},
      {"data: []\n\n", understood},
      {"data: \n\n", understood},
      {"{\"error\":\"x\"}\n", understood},
      {"<html>\n", understood},
      {"data: {\"choices\":[{\"index\":1,\"token_ids\":[1]}]}\n\n", understood},
      {"data: {\"choices\":[{\"index\":0,\"token_ids\":[1.5]}]}\n\n", understood},
      {"data: {\"choices\":[{\"index\":0,\"token_ids\":[-1]}]}\n\n", understood},
      {"data: {\"choices\":[{\"index\":0,\"token_ids\":[4294967296]}]}\n\n", understood},
      {"data: {\"choices\":[{\"index\":0,\"token_ids\":\"1\"}]}\n\n", understood},
      {"data: {\"choices\":[{\"index\":0,\"token_ids\":[1]},{\"index\":0,\"token_ids\":[1]}]}\n\n", understood},
      {event("[5]", "\"abort\""), "accepted 4 w; 5 ; failed The worker broke off this request."},
      {event("[5]", "\"stop\"") + event("[6]"), "accepted 4 w; 5 ; " + understood},
      {event("[100000]"), "failed The worker sent a token outside the vocabulary."},
      {event("[5]") + kDone, "accepted 4 w; 5 ; failed The worker ended its answer without a reason."},
      {event("[5]"), "accepted 4 w; 5 ; failed The worker broke off its answer."},
      {event("[5]", "\"stop\"") + "data: {", "accepted 4 w; 5 ; failed The worker broke off its answer."},
      {"", "failed The worker broke off its answer."},
      {"data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n", "failed The worker does not return token ids."},
      {"data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n", "failed The worker failed on this request."},
      {"data: {\"error\":\"m\"}\n\n", "failed The worker failed on this request."},
  };
  for (const auto& [bytes, expected] : rows) {
    EXPECT_EQ(whole(bytes), expected) << bytes;
    EXPECT_EQ(decode(bytes, [](std::size_t) { return 1; }), expected) << bytes;
  }
}

TEST(AnswerDecoder, BoundsTokensAndLines) {
  EXPECT_EQ(whole(event("[5,6]"), 1), "failed The worker sent more tokens than were asked for.");
  const std::string line = "data: {\"x\":\"" + std::string(2U << 20U, 'y') + "\"}\n\n";
  for (const std::size_t size : {std::size_t{4096}, line.size()}) {
    EXPECT_EQ(decode(line, [&](std::size_t) { return size; }), "failed The worker sent a line longer than allowed.");
  }
  std::string echo = "[1";
  while (echo.size() < (2U << 20U)) echo += ",12345";
  const std::string with_echo = event("[5]", "\"stop\"", echo + "]") + kDone;
  for (const std::size_t size : {std::size_t{100}, std::size_t{65536}, with_echo.size()}) {
    EXPECT_EQ(decode(with_echo, [&](std::size_t) { return size; }), "accepted 4 w; 5 ; finished 0 1 cached ?") << size;
  }
}

TEST(AnswerDecoder, UsageThatComesEarlyIsToldEarly) {
  const std::string early =
      "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"token_ids\":[5]}],\"usage\":{\"prompt_tokens\":4,"
      "\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n";
  std::vector<EngineEvent> out;
  AnswerDecoder decoder({.prompt_tokens = 4, .max_tokens = 8, .vocab_size = 100});
  decoder.feed(early, out);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(std::get<Accepted>(out.front().body).cached_tokens, 3U);
  decoder.feed(event("[6]", "\"length\"") + kDone, out);
  EXPECT_EQ(std::get<Finished>(out.back().body).completion_tokens, 2U) << "the count of the first event is no total";
}

TEST(AnswerDecoder, CountsWithinReason) {
  const auto with_usage = [](int completion) {
    return whole(event("[5,6]", "\"stop\"") + fmt::format("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":4,"
                                                          "\"completion_tokens\":{}}}}}\n\n",
                                                          completion),
                 3);
  };
  EXPECT_EQ(with_usage(3), "accepted 4 w; 5 6 ; finished 0 3 cached ?") << "the token that stopped it is counted";
  EXPECT_EQ(with_usage(0), "accepted 4 w; 5 6 ; finished 0 2 cached ?");
  EXPECT_EQ(with_usage(4'000'000), "accepted 4 w; 5 6 ; finished 0 3 cached ?");
}

}  // namespace
}  // namespace kvern::engine
