#include "router/strategy.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvern::router {
namespace {

std::vector<std::optional<std::size_t>> places(std::string_view name, const std::vector<WorkerView>& workers, int n) {
  const auto strategy = std::move(make_strategy(name)).value();
  std::vector<std::optional<std::size_t>> out;
  for (int i = 0; i < n; ++i) out.push_back(strategy->place({.prompt_tokens = 100}, workers));
  return out;
}

using Places = std::vector<std::optional<std::size_t>>;

TEST(Strategy, EveryOneNamesAUsableWorkerOrNone) {
  for (const auto& row : strategies()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(places(row.name, {}, 2), (Places{std::nullopt, std::nullopt}));
    EXPECT_EQ(places(row.name, {{}, {}, {}}, 2), (Places{std::nullopt, std::nullopt}));
    EXPECT_EQ(places(row.name, {{}, {.usable = true, .requests = 9}, {}}, 3), (Places{1, 1, 1}));
  }
}

TEST(Strategy, RoundRobinTakesEachInTurnAndPassesOverTheUnusable) {
  EXPECT_EQ(places("round_robin", {{.usable = true}, {.usable = true}, {.usable = true}}, 5), (Places{0, 1, 2, 0, 1}));
  EXPECT_EQ(places("round_robin", {{.usable = true}, {}, {.usable = true}}, 4), (Places{0, 2, 0, 2}));
}

TEST(Strategy, RoundRobinSurvivesAShrinkingFleet) {
  const auto strategy = std::move(make_strategy("round_robin")).value();
  const std::vector<WorkerView> three{{.usable = true}, {.usable = true}, {.usable = true}};
  for (int i = 0; i < 3; ++i) strategy->place({}, three);
  EXPECT_EQ(strategy->place({}, std::span(three).first(1)), 0U);
}

TEST(Strategy, LeastLoadedCountsRequestsThenPromptThenPlace) {
  EXPECT_EQ(places("least_loaded", {{.usable = true, .requests = 2}, {.usable = true, .requests = 1}}, 1), (Places{1}));
  EXPECT_EQ(places("least_loaded",
                   {{.usable = true, .requests = 1, .prefill_tokens = 50}, {.usable = true, .requests = 1}}, 1),
            (Places{1}));
  EXPECT_EQ(places("least_loaded", {{.usable = true}, {.usable = true}}, 2), (Places{0, 0}));
  EXPECT_EQ(places("least_loaded", {{.usable = false}, {.usable = true, .requests = 7}}, 1), (Places{1}));
}

TEST(Strategy, AnUnknownNameListsTheKnown) {
  const auto made = make_strategy("fastest");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().param, "strategy");
  for (const auto& row : strategies()) EXPECT_NE(made.error().message.find(row.name), std::string::npos);
}

}  // namespace
}  // namespace kvern::router
