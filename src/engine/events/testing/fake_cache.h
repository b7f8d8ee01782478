// For tests: a cache that stores and evicts at random and knows what is in it, and waiting for a condition.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "kv/event_log.h"
#include "kv/kv_replica.h"

namespace kvern::engine::events::testing {

class FakeCache {
 public:
  explicit FakeCache(std::uint64_t seed) : rng_(seed) {}

  /// A step of an engine: some blocks come, some go.
  std::vector<kv::KvEvent> step() {
    for (std::uint64_t i = 1 + rng_.below(4); i > 0; --i) {
      if (there_.size() > 50 || (rng_.below(3) == 0 && !there_.empty())) {
        log_.removed(kv::SequenceHash{there_.back()});
        there_.pop_back();
      } else {
        const std::uint64_t name = rng_.next();
        const Tokens tokens(16, static_cast<TokenId>(name % 50'000));
        const auto parent = there_.empty() ? std::nullopt : std::optional(kv::SequenceHash{there_.back()});
        log_.stored("tenant", parent, kv::SequenceHash{name}, tokens);
        there_.push_back(name);
      }
    }
    auto events = log_.take();
    for (const auto& event : events) truth.apply(event);
    return events;
  }

  kv::KvReplica truth;

 private:
  Rng rng_;
  kv::EventLog log_{16};
  std::vector<std::uint64_t> there_;
};

/// Waits for what another thread is about to bring about.
inline bool eventually(auto condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline bool same_blocks(const kv::KvReplica& one, const kv::KvReplica& other) {
  bool same = one.blocks() == other.blocks();
  one.for_each([&](const kv::EngineHash& hash, const kv::KvReplica::Block& block) {
    const auto* found = other.find(hash);
    same = same && found != nullptr && *found == block;
  });
  return same;
}

}  // namespace kvern::engine::events::testing
