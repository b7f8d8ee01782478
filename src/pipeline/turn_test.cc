#include "pipeline/turn.h"

#include <gtest/gtest.h>

#include "ir/event_grammar.h"
#include "parser/hermes.h"
#include "parser/plain.h"
#include "pipeline/testing/byte_tokenizer.h"

namespace kvern::pipeline {
namespace {

/// A turn with its story: what the engine said, what came out.
class Story {
 public:
  explicit Story(std::vector<std::string> stops = {}, bool hermes = false, std::uint32_t min_tokens = 0,
                 bool logprobs = false)
      : turn_(options(std::move(stops), hermes, min_tokens, logprobs)) {}

  Story& engine_accepts(std::uint32_t prompt, std::uint32_t cached) { return feed(engine::Accepted{prompt, cached}); }
  Story& engine_says(std::string_view text) {
    for (const char c : text) feed(engine::Output{{static_cast<unsigned char>(c)}, {}});
    return *this;
  }
  /// One token a byte, the first with a log probability of 0, the next of -1...
  Story& engine_says_how_likely(std::string_view text) {
    for (const char c : text) {
      const auto token = static_cast<unsigned char>(c);
      const auto logprob = static_cast<float>(-said_++);
      feed(engine::Output{{token}, {}, {{logprob, {{token, logprob}, {testing::kEndToken, -20}, {9999, -30}}}}});
    }
    return *this;
  }
  Story& engine_finishes(engine::StopCause cause, std::uint32_t tokens) {
    return feed(engine::Finished{cause, tokens});
  }
  Story& engine_fails() { return feed(engine::Failed{kvern::fail(ErrorCode::kEngine, "broken")}); }

  std::string text(ir::BlockKind kind = ir::BlockKind::kText) const {
    std::string text;
    ir::BlockKind open{};
    for (const auto& event : out_.events) {
      if (const auto* start = std::get_if<ir::BlockStart>(&event)) open = start->kind;
      if (const auto* delta = std::get_if<ir::BlockDelta>(&event); delta != nullptr && open == kind)
        text += delta->text;
    }
    return text;
  }
  /// Each delta of text with the tokens it came with: `text[tokens]`.
  std::string deltas() const {
    std::string out;
    for (const auto& event : out_.events) {
      const auto* delta = std::get_if<ir::BlockDelta>(&event);
      if (delta == nullptr) continue;
      out += delta->text + "[";
      for (const auto& token : delta->logprobs) out += token.bytes;
      out += "]";
    }
    return out;
  }
  const ir::End* end() const { return out_.events.empty() ? nullptr : std::get_if<ir::End>(&out_.events.back()); }
  const TurnOutput& out() const { return out_; }
  bool keeps_grammar() const {
    ir::EventGrammar grammar;
    for (const auto& event : out_.events) {
      if (grammar.accept(event)) return false;
    }
    return grammar.complete();
  }

 private:
  TurnOptions options(std::vector<std::string> stops, bool hermes, std::uint32_t min_tokens, bool logprobs) {
    TurnOptions made;
    made.id = RequestId{0xA};
    made.tokenizer = &tokenizer_;
    made.parser = hermes ? parser::make_hermes_parser({}) : parser::make_plain_parser();
    made.stop_strings = std::move(stops);
    made.min_tokens = min_tokens;
    made.logprobs = logprobs;
    return made;
  }
  template <typename Body>
  Story& feed(Body body) {
    turn_.on_engine({RequestId{0xA}, std::move(body)}, out_);
    return *this;
  }

  int said_ = 0;
  testing::ByteTokenizer tokenizer_;
  Turn turn_;
  TurnOutput out_;
};

TEST(Turn, TextAndUsageCome) {
  Story story;
  story.engine_accepts(10, 4).engine_says("hello").engine_finishes(engine::StopCause::kEos, 6);
  EXPECT_EQ(story.text(), "hello");
  ASSERT_NE(story.end(), nullptr);
  EXPECT_EQ(story.end()->reason, ir::FinishReason::kStop);
  EXPECT_EQ(story.end()->usage, (ir::Usage{10, 4, 6, 0}));
  EXPECT_TRUE(story.keeps_grammar());
}

TEST(Turn, AStopStringEndsTheAnswerAndTheEngine) {
  Story story({"END"});
  story.engine_accepts(1, 0).engine_says("one END two").engine_finishes(engine::StopCause::kEos, 11);
  EXPECT_EQ(story.text(), "one ");
  EXPECT_TRUE(story.out().cancel_engine);
  EXPECT_EQ(story.end()->reason, ir::FinishReason::kStopString);
  EXPECT_EQ(story.end()->stop_string, "END");
  EXPECT_EQ(story.end()->usage.completion_tokens, 7U) << "what came after the stop is not counted";
  EXPECT_TRUE(story.keeps_grammar());
}

TEST(Turn, HalfAStopStringIsTextAtTheEnd) {
  Story story({"END"});
  story.engine_accepts(1, 0).engine_says("an EN").engine_finishes(engine::StopCause::kLength, 5);
  EXPECT_EQ(story.text(), "an EN");
  EXPECT_EQ(story.end()->reason, ir::FinishReason::kLength);
}

TEST(Turn, StopStringsWaitForMinTokens) {
  Story story({"x"}, false, 3);
  story.engine_accepts(1, 0).engine_says("xaxbx").engine_finishes(engine::StopCause::kEos, 5);
  EXPECT_EQ(story.text(), "xaxb");
}

TEST(Turn, SplitCharactersJoinAndBrokenOnesAreReplaced) {
  Story story;
  story.engine_accepts(1, 0).engine_says("\xE2\x82\xAC and \xE2\x82").engine_finishes(engine::StopCause::kLength, 9);
  EXPECT_EQ(story.text(), "\u20AC and \uFFFD");
}

TEST(Turn, ReasoningAndCallsAreBlocksOfTheirOwn) {
  Story story({}, true);
  story.engine_accepts(1, 0)
      .engine_says("<think>hm</think>Sure.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>")
      .engine_finishes(engine::StopCause::kEos, 80);
  EXPECT_EQ(story.text(ir::BlockKind::kThinking), "hm");
  EXPECT_EQ(story.text(), "Sure.");
  EXPECT_EQ(story.text(ir::BlockKind::kToolCall), "{\"a\": 1}");
  EXPECT_EQ(story.end()->reason, ir::FinishReason::kToolCalls);
  EXPECT_GE(story.end()->usage.reasoning_tokens, 2U);
  EXPECT_TRUE(story.keeps_grammar());
}

/// A turn that hands on log probabilities, to its end.
std::string deltas_of(std::string_view text, std::vector<std::string> stops = {}, bool hermes = false) {
  Story story(std::move(stops), hermes, 0, true);
  story.engine_accepts(1, 0).engine_says_how_likely(text).engine_finishes(engine::StopCause::kEos, 1);
  EXPECT_TRUE(story.keeps_grammar());
  return story.deltas();
}

TEST(Turn, LogProbabilitiesComeWithTheirText) {
  EXPECT_EQ(deltas_of("abc"), "a[a]b[b]c[c]");
  EXPECT_EQ(deltas_of("\u20AC!"), "\u20AC[\u20AC]![!]") << "halves of a character together";
  EXPECT_EQ(deltas_of("\xE2\x82!"), "\uFFFD![\xE2\x82!]");
  EXPECT_EQ(deltas_of("aENx", {"END"}), "a[a]ENx[ENx]") << "held back for a stop string";
  EXPECT_EQ(deltas_of("aEND", {"END"}), "a[a]") << "a stop string is not visible";
}

TEST(Turn, LogProbabilitiesAreOfVisibleText) {
  EXPECT_EQ(deltas_of("<think>hm</think>\n\nHi <b>", {}, true), "h[]m[]H[H]i[i] <b[ <b]>[>]");
  EXPECT_EQ(deltas_of("A<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nB", {}, true),
            "A[A]{[]}[]\nB[\nB]");
  EXPECT_EQ(deltas_of("a <tool_call> is", {}, true), "a[a] <tool_call> i[ <tool_call> i]s[s]") << "text after all";
}

TEST(Turn, LogProbabilitiesNameTheAlternatives) {
  Story story({}, false, 0, true);
  story.engine_accepts(1, 0).engine_says_how_likely("ab");
  const auto* delta = std::get_if<ir::BlockDelta>(&story.out().events.back());
  ASSERT_NE(delta, nullptr);
  ASSERT_EQ(delta->logprobs.size(), 1U);
  const ir::TokenLogprob wanted{"b", -1, {{"b", -1}, {"<end>", -20}}};
  EXPECT_EQ(delta->logprobs[0], wanted) << "a token outside the vocabulary has no text";
}

TEST(Turn, LogProbabilitiesThatTheEngineDoesNotGiveAreNone) {
  Story story({}, false, 0, true);
  story.engine_accepts(1, 0).engine_says("a").engine_says_how_likely("b").engine_says("c");
  EXPECT_EQ(story.deltas(), "a[]b[b]c[]");
}

TEST(Turn, AFailureEndsOnce) {
  Story story;
  story.engine_accepts(1, 0).engine_says("a").engine_fails().engine_says("b").engine_finishes(engine::StopCause::kEos,
                                                                                              2);
  EXPECT_EQ(story.text(), "a");
  EXPECT_TRUE(std::holds_alternative<ir::Failure>(story.out().events.back()));
  EXPECT_TRUE(story.keeps_grammar());
}

TEST(Turn, AFailureBeforeAnythingStandsAlone) {
  Story story;
  story.engine_fails();
  EXPECT_EQ(story.out().events.size(), 1U);
  EXPECT_TRUE(story.keeps_grammar());
}

}  // namespace
}  // namespace kvern::pipeline
