#include "base/rng.h"

#include <random>

namespace kvern {

std::uint64_t entropy_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace kvern
