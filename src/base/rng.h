// Seeded randomness as a parameter: splitmix64 (Steele, Lea, Flood 2014, public-domain constants). Fast, equal on every
// machine, good enough for ids, jitter and simulation; never for secrets.
#pragma once

#include <cstdint>

namespace kvern {

/// One thread. Copy it to fork a stream of equal values.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  /// Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below 2^-32 for bounds under 2^32.
  std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64U);
  }
  /// Uniform in [0, 1).
  double uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

/// A seed from the operating system's entropy.
std::uint64_t entropy_seed();

}  // namespace kvern
