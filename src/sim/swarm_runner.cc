#include "sim/swarm_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define KVERN_SANITIZER_RUNS
#endif
#endif

namespace kvern::sim {
namespace {

// Enough to see whether it is one bug or many.
constexpr std::size_t kFailedMax = 5;

thread_local std::array<char, 80> last_words{};

void say_last_words() {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
}

void on_abort(int) { say_last_words(); }  // returning from it lets abort() go on

void arm_last_words() {
  std::signal(SIGABRT, on_abort);
#ifdef KVERN_SANITIZER_RUNS
  __sanitizer_set_death_callback(say_last_words);
#endif
}

}  // namespace

SwarmSummary run_swarms(const SwarmRange& range) {
  arm_last_words();
  SwarmSummary summary;
  std::mutex mutex;  // guards summary
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> enough{false};
  const auto work = [&] {
    while (!enough) {
      const std::uint64_t index = next++;
      if (index >= range.seeds) break;
      const std::uint64_t seed = range.first + index;
      fmt::format_to_n(last_words.data(), last_words.size() - 1,
                       "seed {} ended the process; replay: make sim SEED={}\n", seed, seed);
      SwarmResult result = run_swarm(seed, nullptr);
      last_words.fill('\0');
      const std::lock_guard lock(mutex);
      ++summary.seeds;
      summary.tally.add(result.tally);
      if (!result.findings.empty()) summary.failed.push_back(std::move(result));
      if (summary.failed.size() >= kFailedMax) enough = true;
    }
  };
  std::vector<std::thread> threads;
  const std::uint32_t count = range.threads > 0 ? range.threads : std::max(1U, std::thread::hardware_concurrency());
  threads.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  std::ranges::sort(summary.failed, {}, &SwarmResult::seed);
  return summary;
}

std::string describe(const SwarmResult& failed) {
  std::string text = fmt::format("seed {}:\n", failed.seed);
  for (const auto& finding : failed.findings) {
    const double seconds = std::chrono::duration<double>(finding.when.time_since_epoch()).count();
    text += fmt::format("  {:.6f} s  {}: {}\n", seconds, finding.checker, finding.what);
  }
  return text + fmt::format("  replay: make sim SEED={}\n", failed.seed);
}

}  // namespace kvern::sim
