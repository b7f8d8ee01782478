#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "sim/swarm_runner.h"

namespace kvern::sim {
namespace {

#ifdef KVERN_SANITIZED
constexpr std::uint64_t kSeeds = 60;
#else
constexpr std::uint64_t kSeeds = 200;
#endif
constexpr std::uint64_t kSeedsFull = 10'000;

TEST(Swarm, NothingWrongIsFoundWithAnySeed) {
  const bool full = std::getenv("KVERN_FULL") != nullptr;
  const auto summary = run_swarms({.first = 1, .seeds = full ? kSeedsFull : kSeeds});
  for (const auto& failed : summary.failed) ADD_FAILURE() << describe(failed);
  // It went everywhere it is meant to go.
  for (std::size_t i = 0; i < kHappenings.size(); ++i) {
    EXPECT_GT(summary.tally.counts()[i], 0U) << kHappenings[i];
    RecordProperty(std::string(kHappenings[i]), std::to_string(summary.tally.counts()[i]));
  }
}

/// Other addresses than before: on another thread (another arena), with holes in the heap.
std::uint64_t hash_elsewhere(std::uint64_t seed) {
  std::uint64_t hash = 0;
  std::thread([&] {
    std::vector<std::unique_ptr<char[]>> holes;
    for (std::size_t i = 1; i < 400; ++i) holes.push_back(std::make_unique<char[]>(i * 37 % 900 + 1));
    for (std::size_t i = 0; i < holes.size(); i += 2) holes[i].reset();
    hash = run_swarm(seed, nullptr).trace_hash;
  }).join();
  return hash;
}

TEST(Swarm, TheSameSeedGivesTheSameTrace) {
  std::uint64_t previous = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::uint64_t hash = run_swarm(seed, nullptr).trace_hash;
    EXPECT_EQ(hash, run_swarm(seed, nullptr).trace_hash) << seed;
    EXPECT_EQ(hash, hash_elsewhere(seed)) << seed;
    EXPECT_NE(hash, previous);
    previous = hash;
  }
}

}  // namespace
}  // namespace kvern::sim
