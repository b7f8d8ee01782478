// What happened in simulated runs, in numbers: shows that a swarm went where it is meant to go. A value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvern::sim {

enum class Happening : std::uint8_t {
  kRequest,
  kEnd,
  kEndByLength,
  kEndByStopString,
  kFailureBeforeText,
  kFailureInText,
  kGoneBeforeText,
  kGoneInText,
  kCancelWaiting,
  kCancelInPrefill,
  kCancelInText,
  kCrash,
  kVanishing,
  kStall,
  kCut,
  kFading,
  kRefusal,
  kFailedDecode,
  kTakenOut,
  kRetry,
  kPreemption,
  kCachedToken,
};
inline constexpr std::array<std::string_view, 22> kHappenings{"requests",
                                                              "ends",
                                                              "ends by length",
                                                              "ends by stop string",
                                                              "failures before text",
                                                              "failures in text",
                                                              "gone before text",
                                                              "gone in text",
                                                              "cancels of waiting",
                                                              "cancels in prefill",
                                                              "cancels in text",
                                                              "crashes",
                                                              "vanishings",
                                                              "stalls",
                                                              "cut streams",
                                                              "faded streams",
                                                              "refusals",
                                                              "failed decodes",
                                                              "workers taken out",
                                                              "retries",
                                                              "preemptions",
                                                              "cached tokens"};

class Tally {
 public:
  void add(Happening what, std::uint64_t times = 1) { counts_[static_cast<std::size_t>(what)] += times; }
  void add(const Tally& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  /// In the order of kHappenings.
  const std::array<std::uint64_t, kHappenings.size()>& counts() const { return counts_; }

 private:
  std::array<std::uint64_t, kHappenings.size()> counts_{};
};

}  // namespace kvern::sim
