// What the simulator draws from an Rng, beyond numbers.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/clock.h"
#include "base/rng.h"

namespace kvern::sim {

inline bool chance(Rng& rng, double probability) { return rng.uniform() < probability; }

/// Uniform in [low, high].
inline std::uint32_t draw(Rng& rng, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(rng.below(std::uint64_t{high} - low + 1));
}
inline Duration draw(Rng& rng, Duration low, Duration high) {
  return low + Duration(static_cast<Duration::rep>(rng.below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}
/// The wait for the next event of a Poisson process.
inline Duration draw_wait(Rng& rng, Duration mean) {
  return Duration(static_cast<Duration::rep>(-std::log1p(-rng.uniform()) * static_cast<double>(mean.count())));
}

}  // namespace kvern::sim
