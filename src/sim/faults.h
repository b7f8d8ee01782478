// What goes wrong, when and where: drawn from the seed. A run has its own selection of kinds and its own frequency, so
// that some seeds see one kind often and others see all of them (swarm testing, Groce and others, ISSTA 2012).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/site.h"
#include "sim/tally.h"
#include "sim/world.h"

namespace kvern::sim {

class Faults {
 public:
  /// All arguments outlive it, and `world` is cleared before they go.
  Faults(World& world, Site& site, Tally& tally);

  /// Faults come until `heal`; then every one of them ends.
  void begin(TimePoint heal);

 private:
  enum class Kind : std::uint8_t { kCrash, kVanish, kStall, kCut, kFade, kRefuse, kFailDecode, kTakeOut };
  static constexpr std::uint32_t kKinds = 8;

  void next();
  void strike(std::size_t worker, Kind kind);
  void crash(SimEngine& engine, bool loud);

  World& world_;
  Site& site_;
  Tally& tally_;
  Rng rng_;
  std::vector<Kind> kinds_;  // of this run; may be none
  Duration mean_;
  TimePoint heal_;
};

}  // namespace kvern::sim
