// What this process may use of its machine, containers considered. Reads /proc and cgroup files at each call.
#pragma once

#include <cstdint>

namespace kvern::engine {

/// Memory that can still be taken without swapping; 0 when unknown.
std::uint64_t free_memory_bytes();
/// Cores this process may run on; at least 1.
std::uint32_t usable_cores();

}  // namespace kvern::engine
