#include "router/strategy.h"

#include <fmt/format.h>

#include <array>

#include "router/strategy/strategies.h"

namespace kvern::router {
namespace {

constexpr std::array<StrategyRow, 2> kStrategies{{
    {"least_loaded", "the worker with the fewest requests", make_least_loaded},
    {"round_robin", "each worker in turn", make_round_robin},
}};

}  // namespace

std::span<const StrategyRow> strategies() noexcept { return kStrategies; }

Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name) {
  std::string known;
  for (const auto& row : kStrategies) {
    if (row.name == name) return row.make();
    fmt::format_to(std::back_inserter(known), "{}{}", known.empty() ? "" : ", ", row.name);
  }
  return invalid("strategy", fmt::format("there is no strategy `{}`; known are: {}", name.substr(0, 64), known));
}

}  // namespace kvern::router
