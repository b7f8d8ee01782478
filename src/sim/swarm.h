// One run of the swarm: a site, clients and faults drawn from a seed, in two phases. First anything may break, and
// nothing wrong may ever happen (safety); then all heals, and within bounded time every request ends and everything is
// empty (liveness). Checkers watch throughout. Milliseconds a run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

#include "sim/checkers/checker.h"
#include "sim/tally.h"

namespace kvern::sim {

struct SwarmResult {
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::vector<Finding> findings;  // at most those of one moment: the run stops there
  Tally tally;
};

/// The trace goes to `print` unless it is null. Any thread; runs of several threads do not meet.
SwarmResult run_swarm(std::uint64_t seed, std::FILE* print);

}  // namespace kvern::sim
