// `swarm --seed N` replays one seed and prints what happens in it (make sim SEED=N); `swarm [--first N] [--seeds N]
// [--threads N]` runs many and prints those that fail; with `--expect CHECKER` it wants one to be found by that checker
// (canaries: built from a production source with a bug planted).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "sim/swarm_runner.h"

namespace {

namespace sim = kvern::sim;

int usage() {
  std::fputs("usage: swarm --seed N | [--first N] [--seeds N] [--threads N] [--expect CHECKER]\n", stderr);
  return 2;
}

int replay(std::uint64_t seed) {
  const auto result = sim::run_swarm(seed, stdout);
  fmt::print("seed {}: trace hash {:016x}, {}\n", seed, result.trace_hash,
             result.findings.empty() ? "nothing found" : "FAILED");
  if (!result.findings.empty()) fmt::print("{}", sim::describe(result));
  return result.findings.empty() ? 0 : 1;
}

int run(const sim::SwarmRange& range) {
  const auto summary = sim::run_swarms(range);
  for (const auto& failed : summary.failed) fmt::print("{}", sim::describe(failed));
  for (std::size_t i = 0; i < sim::kHappenings.size(); ++i) {
    fmt::print("{:>12} {}\n", summary.tally.counts()[i], sim::kHappenings[i]);
  }
  fmt::print("{} seeds, {} failed\n", summary.seeds, summary.failed.size());
  return summary.failed.empty() && summary.seeds == range.seeds ? 0 : 1;
}

int expect(const sim::SwarmRange& range, const std::string& checker) {
  for (std::uint64_t seed = range.first; seed < range.first + range.seeds; ++seed) {
    const auto result = sim::run_swarm(seed, nullptr);
    const auto by_it = [&](const sim::Finding& finding) { return finding.checker == checker; };
    if (std::ranges::none_of(result.findings, by_it)) continue;
    fmt::print("{} found the planted bug with seed {}\n{}", checker, seed, sim::describe(result));
    return 0;
  }
  fmt::print("{} did not find the planted bug in {} seeds\n", checker, range.seeds);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  sim::SwarmRange range;
  std::optional<std::uint64_t> seed;
  std::string checker;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) return usage();
    const std::string_view value = argv[i + 1];
    if (flag == "--expect") {
      checker = value;
      continue;
    }
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return usage();
    if (flag == "--seed") {
      seed = number;
    } else if (flag == "--first") {
      range.first = number;
    } else if (flag == "--seeds") {
      range.seeds = number;
    } else if (flag == "--threads") {
      range.threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(number, 256));
    } else {
      return usage();
    }
  }
  if (seed) return replay(*seed);
  return checker.empty() ? run(range) : expect(range, checker);
}
