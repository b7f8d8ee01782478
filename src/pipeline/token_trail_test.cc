#include "pipeline/token_trail.h"

#include <gtest/gtest.h>

namespace kvern::pipeline {
namespace {

/// A trail with its story: tokens whose text passes at once, and what is claimed of it.
class Story {
 public:
  Story& token(const std::string& bytes) {
    trail_.add({bytes, 0, {}}, bytes.size());
    trail_.passed(bytes);
    return *this;
  }
  Story& held_token(std::string bytes, std::size_t text_bytes) {
    trail_.add({std::move(bytes), 0, {}}, text_bytes);
    return *this;
  }
  Story& passed(std::string_view text) {
    trail_.passed(text);
    return *this;
  }
  Story& skip() {
    trail_.skip();
    return *this;
  }
  /// The tokens claimed, with bars between them.
  std::string claim(std::string_view text) {
    std::string out;
    for (const auto& token : trail_.claim(text)) out += (out.empty() ? "" : "|") + token.bytes;
    return out;
  }

 private:
  TokenTrail trail_;
};

TEST(TokenTrail, EachTokenGoesWithItsText) {
  Story story;
  EXPECT_EQ(story.token("a").claim("a"), "a");
  EXPECT_EQ(story.token("b").token("c").claim("bc"), "b|c");
}

TEST(TokenTrail, TextHeldBackComesWithTheNextDelta) {
  Story story;
  EXPECT_EQ(story.token("one <").claim("one"), "one <") << "shown in part";
  EXPECT_EQ(story.token("two").claim(" <two"), "two");
}

TEST(TokenTrail, HalfACharacterComesWithTheOtherHalf) {
  Story story;
  story.held_token("\xE2\x82", 0).held_token("\xAC", 3).passed("\u20AC");
  EXPECT_EQ(story.claim("\u20AC"), "\xE2\x82|\xAC");
}

TEST(TokenTrail, DroppedTextIsForgotten) {
  Story story;
  EXPECT_EQ(story.token("</think>").token("\n\n").token("think").claim("think"), "think");
  EXPECT_EQ(story.token("!").claim("!"), "!");
}

TEST(TokenTrail, ReasoningIsForgottenButNotWhatFollowsItInTheSamePass) {
  Story story;
  story.token("hm").skip();
  EXPECT_EQ(story.token("</think>Hi").skip().claim("Hi"), "</think>Hi") << "a token that is part of both";
  story.token("<tool_call>").token("{").skip().token("}").skip();
  EXPECT_EQ(story.token("\n").token("Done").claim("Done"), "Done");
}

TEST(TokenTrail, WhatAStopStringHidIsNeverClaimed) {
  Story story;
  story.held_token(" EN", 3).held_token("D", 1).passed(" ");
  EXPECT_EQ(story.claim(" "), " EN");
}

TEST(TokenTrail, TextWithoutTokensMovesOn) {
  TokenTrail trail;
  trail.add_unknown(3);
  trail.passed("abc");
  EXPECT_TRUE(trail.claim("abc").empty());
  trail.add({"d", 0, {}}, 1);
  trail.passed("d");
  EXPECT_EQ(trail.claim("d").size(), 1U);
}

TEST(TokenTrail, WhatWaitsIsBounded) {
  TokenTrail trail;
  const std::size_t many = TokenTrail::kWaitingMost * 20;
  for (std::size_t i = 0; i < many; ++i) {
    trail.add({"x", static_cast<float>(i), {}}, 1);
    trail.passed("x");
  }
  const auto claimed = trail.claim(std::string(many, 'x'));
  ASSERT_EQ(claimed.size(), TokenTrail::kWaitingMost);
  EXPECT_EQ(claimed.back().logprob, static_cast<float>(many - 1)) << "the latest";
}

}  // namespace
}  // namespace kvern::pipeline
