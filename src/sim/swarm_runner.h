// Many seeds, on all cores. A seed that ends the process (a failed KV_CHECK, a sanitizer) is named before it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/swarm.h"

namespace kvern::sim {

struct SwarmRange {
  std::uint64_t first = 1;
  std::uint64_t seeds = 200;
  std::uint32_t threads = 0;  // 0: all cores
};

struct SwarmSummary {
  std::vector<SwarmResult> failed;  // those with findings, by seed; no more seeds are begun after some
  Tally tally;
  std::uint64_t seeds = 0;  // that were run
};

SwarmSummary run_swarms(const SwarmRange& range);

/// What was found, and the command that replays it.
std::string describe(const SwarmResult& failed);

}  // namespace kvern::sim
