#include "engine/embedded/host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace kvern::engine {
namespace {

std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

}  // namespace

std::uint64_t free_memory_bytes() {
  std::uint64_t free = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) free = std::stoull(line.substr(13)) * 1024;
  }
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const std::uint64_t left = *limit - std::min(*limit, *used);
    free = free == 0 ? left : std::min(free, left);
  }
  return free;
}

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    const int cores = CPU_COUNT(&set);
    if (cores > 0) return static_cast<std::uint32_t>(cores);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace kvern::engine
