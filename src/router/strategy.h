// How a worker is chosen for a request. A strategy is policy only: it reads a view of the workers and names one; who
// keeps the view, and what happens when the worker fails, is the fleet's business (pipeline/fleet.h). One file per
// strategy in strategy/, one array in strategy.cc that lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace kvern::router {

/// One worker as a strategy sees it; the place in the span is the worker's name here.
struct WorkerView {
  bool usable = false;               // answers, and was not tried for this request yet
  std::uint32_t requests = 0;        // given to it and not ended
  std::uint64_t prefill_tokens = 0;  // prompt tokens of those that have no token yet
};

struct PlacementRequest {
  std::uint32_t prompt_tokens = 0;
};

/// Called by one thread at a time. The same calls give the same answers: ties break by place, chance comes by seed.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// The place of a usable worker; nullopt only when there is none. O(workers).
  virtual std::optional<std::size_t> place(const PlacementRequest& request, std::span<const WorkerView> workers) = 0;
};

struct StrategyRow {
  std::string_view name;
  std::string_view about;  // one line
  std::unique_ptr<Strategy> (*make)();
};

/// All of them; the first is the default.
std::span<const StrategyRow> strategies() noexcept;

/// kInvalidRequest for an unknown name, listing the known ones.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name);

}  // namespace kvern::router
