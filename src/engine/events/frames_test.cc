#include "engine/events/frames.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvern::engine::events {
namespace {

using namespace std::string_literals;

TEST(Frames, SequenceNumbersAreBigEndian) {
  EXPECT_EQ(sequence_frame(0), "\0\0\0\0\0\0\0\0"s);
  EXPECT_EQ(sequence_frame(0x0102030405060708), "\1\2\3\4\5\6\7\x08"s);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{258}, kEndOfReplay}) {
    EXPECT_EQ(parse_sequence(sequence_frame(number)), number);
  }
  EXPECT_EQ(parse_sequence("1234567"), std::nullopt);
  EXPECT_EQ(parse_sequence("123456789"), std::nullopt);
}

TEST(Frames, MessagesInEveryLayout) {
  const std::string seven = sequence_frame(7);
  const std::string end = sequence_frame(kEndOfReplay);
  struct Case {
    const char* what;
    std::vector<std::string_view> frames;
    std::optional<std::uint64_t> sequence;
    std::string_view topic;
  };
  const Case cases[] = {
      {"live", {"kv", seven, "p"}, 7, "kv"},
      {"live, no topic", {"", seven, "p"}, 7, ""},
      {"replayed by vLLM", {"", "kv", seven, "p"}, 7, "kv"},
      {"replayed by SGLang", {"", seven, "p"}, 7, ""},
      {"without a topic", {seven, "p"}, 7, ""},
      {"end marker of vLLM", {"", "", end, ""}, kEndOfReplay, ""},
      {"end marker of SGLang", {"", end, ""}, kEndOfReplay, ""},
      {"nothing", {}, std::nullopt, ""},
      {"payload only", {"p"}, std::nullopt, ""},
      {"number too short", {"kv", "1234567", "p"}, std::nullopt, ""},
      {"too many frames", {"", "", "kv", seven, "p"}, std::nullopt, ""},
      {"four frames without a delimiter", {"x", "kv", seven, "p"}, std::nullopt, ""},
      {"the marker's number with a payload", {"", end, "p"}, std::nullopt, ""},
      {"a message without payload", {"", seven, ""}, std::nullopt, ""},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    const auto message = parse_message(each.frames);
    ASSERT_EQ(message.has_value(), each.sequence.has_value());
    if (!message) continue;
    EXPECT_EQ(message->sequence, *each.sequence);
    EXPECT_EQ(message->topic, each.topic);
    EXPECT_EQ(message->payload, each.sequence == kEndOfReplay ? "" : "p");
  }
}

}  // namespace
}  // namespace kvern::engine::events
