#include "pipeline/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace kvern::pipeline {
namespace {

struct Outcome {
  std::string text;
  std::string stop;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const auto& piece : pieces) {
    if (const auto stop = matcher.add(piece, outcome.text)) {
      outcome.stop = *stop;
      return outcome;
    }
  }
  matcher.finish(outcome.text);
  return outcome;
}

/// The plain definition: the first byte at which some stop string is complete, the longest of those.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const auto& stop : stops) {
      if (stop.size() > best.size() && std::string_view(text).substr(0, end).ends_with(stop)) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

TEST(StopMatcher, HoldsBackOnlyWhatMayStop) {
  StopMatcher matcher({"END"});
  std::string out;
  EXPECT_EQ(matcher.add("abE", out), std::nullopt);
  EXPECT_EQ(out, "ab");
  EXPECT_EQ(matcher.add("x", out), std::nullopt);
  EXPECT_EQ(out, "abEx");
  EXPECT_EQ(matcher.add("EN", out), std::nullopt);
  EXPECT_EQ(matcher.add("D and more", out), "END");
  EXPECT_EQ(out, "abEx");
}

TEST(StopMatcher, WithoutStringsTextPassesThrough) { EXPECT_EQ(run({}, {"abc", "d"}), (Outcome{"abcd", ""})); }

TEST(StopMatcher, HeldTextLeavesAtTheEnd) { EXPECT_EQ(run({"abcd"}, {"xab", "c"}), (Outcome{"xabc", ""})); }

TEST(StopMatcher, EqualsThePlainDefinitionInEverySplit) {
  Rng rng(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (std::uint64_t i = 0; i <= rng.below(3); ++i) {
      std::string stop;
      for (std::uint64_t j = 0; j <= rng.below(4); ++j) stop += static_cast<char>('a' + rng.below(2));
      stops.push_back(stop);
    }
    std::string text;
    for (std::uint64_t i = 0; i < rng.below(16); ++i) text += static_cast<char>('a' + rng.below(3));
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + rng.below(4);
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    EXPECT_EQ(run(stops, pieces), naive(stops, text)) << text << " round " << round;
  }
}

}  // namespace
}  // namespace kvern::pipeline
