#include "engine/events/replay_buffer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "kv/event_log.h"

namespace kvern::engine::events {
namespace {

constexpr std::uint32_t kBlock = 16;

std::string payload_of(std::vector<kv::KvEvent> events, double time = 1) {
  std::string payload;
  encode({.timestamp_s = time, .events = std::move(events), .data_parallel_rank = 0}, WireStyle::kVllmMaps, payload);
  return payload;
}

/// A step that stores the block `name` after `parent` (0: first).
std::vector<kv::KvEvent> stores(std::uint64_t name, std::uint64_t parent = 0) {
  kv::EventLog log(kBlock);
  const Tokens tokens(kBlock, static_cast<TokenId>(name));
  log.stored("", parent == 0 ? std::nullopt : std::optional(kv::SequenceHash{parent}), kv::SequenceHash{name}, tokens);
  return log.take();
}

void follow(kv::KvReplica& replica, const std::string& payload) {
  auto decoded = decode(payload);
  ASSERT_TRUE(decoded.ok());
  for (const auto& event : decoded->batch.events) ASSERT_TRUE(replica.apply(event));
}

TEST(ReplayBuffer, KeepsTheLastWithinBothBounds) {
  ReplayBuffer by_count(3, 1'000'000, WireStyle::kVllmMaps);
  EXPECT_EQ(by_count.end(), 0U);
  for (std::uint64_t i = 0; i < 5; ++i) by_count.append(payload_of(stores(i + 1)));
  EXPECT_EQ(by_count.first(), 2U);
  EXPECT_EQ(by_count.end(), 5U);
  EXPECT_EQ(by_count.payload(4), payload_of(stores(5)));
  EXPECT_EQ(by_count.bytes(), 3 * payload_of(stores(1)).size());

  const std::size_t each = payload_of(stores(1)).size();
  ReplayBuffer by_bytes(100, 2 * each, WireStyle::kVllmMaps);
  for (std::uint64_t i = 0; i < 5; ++i) by_bytes.append(payload_of(stores(i + 1)));
  EXPECT_EQ(by_bytes.first(), 3U);
  ReplayBuffer tiny(100, 1, WireStyle::kVllmMaps);
  for (std::uint64_t i = 0; i < 5; ++i) tiny.append(payload_of(stores(i + 1)));
  EXPECT_EQ(tiny.first(), 4U);
}

TEST(ReplayBuffer, StateAndMessagesAreTheWholeTruth) {
  Rng rng(5);
  ReplayBuffer buffer(7, 1'000'000, WireStyle::kVllmMaps);
  kv::KvReplica truth;
  std::vector<std::uint64_t> there;
  for (std::uint64_t step = 1; step < 300; ++step) {
    std::vector<kv::KvEvent> events;
    if (rng.below(3) != 0 || there.empty()) {
      const std::uint64_t parent = there.empty() || rng.below(2) == 0 ? 0 : there[rng.below(there.size())];
      events = stores(step, parent);
      there.push_back(step);
    } else if (rng.below(10) == 0) {
      events.emplace_back(kv::AllBlocksCleared{});
      there.clear();
    } else {
      const std::size_t which = rng.below(there.size());
      events.emplace_back(kv::BlockRemoved{{there[which]}, {}});
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(which));
    }
    for (const auto& event : events) ASSERT_TRUE(truth.apply(event));
    buffer.append(payload_of(std::move(events), static_cast<double>(step)));

    kv::KvReplica followed;
    followed.apply(stores(999'999)[0]);  // what a follower wrongly believes is gone with the state
    for (const auto& payload : buffer.state_before(1)) follow(followed, payload);
    for (std::uint64_t i = buffer.first(); i < buffer.end(); ++i) follow(followed, buffer.payload(i));
    ASSERT_EQ(followed.blocks(), truth.blocks());
    truth.for_each([&](const kv::EngineHash& hash, const kv::KvReplica::Block& block) {
      ASSERT_NE(followed.find(hash), nullptr);
      ASSERT_EQ(*followed.find(hash), block);
    });
  }
}

TEST(ReplayBuffer, ALargeStateIsCutIntoTheMessagesThereAreNumbersFor) {
  ReplayBuffer buffer(1, 1, WireStyle::kVllmMaps);
  constexpr std::uint64_t kBlocks = 60'000;  // some 5 MB
  for (std::uint64_t i = 1; i <= kBlocks; i += 1000) {
    std::vector<kv::KvEvent> events;
    for (std::uint64_t name = i; name < i + 1000; ++name) events.push_back(stores(name, name - 1)[0]);
    buffer.append(payload_of(std::move(events)));
  }
  buffer.append(payload_of({kv::AllBlocksCleared{}}));
  for (const std::size_t numbers : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
    const auto payloads = buffer.state_before(numbers);
    EXPECT_LE(payloads.size(), numbers);
    if (numbers == 100) {
      EXPECT_GT(payloads.size(), 3U);
      for (const auto& payload : payloads) EXPECT_LT(payload.size(), std::size_t{2} << 20U);
    }
    kv::KvReplica followed;
    for (const auto& payload : payloads) follow(followed, payload);
    EXPECT_EQ(followed.blocks(), kBlocks);
  }
}

}  // namespace
}  // namespace kvern::engine::events
