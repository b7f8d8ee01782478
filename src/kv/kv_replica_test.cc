#include "kv/kv_replica.h"

#include <gtest/gtest.h>

namespace kvern::kv {
namespace {

BlockStored chain(std::vector<EngineHash> hashes, std::optional<EngineHash> parent = std::nullopt) {
  BlockStored event;
  event.block_size = 2;
  event.parent = std::move(parent);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto token = static_cast<TokenId>(std::hash<EngineHash>{}(hashes[i]) % 1000);
    event.token_ids.insert(event.token_ids.end(), {token, token + 1});
  }
  event.block_hashes = std::move(hashes);
  return event;
}

BlockRemoved gone(std::vector<EngineHash> hashes) { return {std::move(hashes), {}}; }

EngineHash hash(std::uint64_t number) { return number; }

std::size_t same_after_a_snapshot(const KvReplica& replica) {
  KvReplica other;
  for (const auto& event : replica.snapshot()) EXPECT_TRUE(other.apply(event));
  replica.for_each([&](const EngineHash& name, const KvReplica::Block& block) {
    ASSERT_NE(other.find(name), nullptr);
    EXPECT_EQ(*other.find(name), block);
  });
  return other.blocks();
}

TEST(KvReplica, FollowsChains) {
  KvReplica replica;
  EXPECT_TRUE(replica.apply(chain({hash(1), hash(2), hash(3)})));
  EXPECT_TRUE(replica.apply(chain({hash(4)}, hash(2))));
  EXPECT_EQ(replica.blocks(), 4U);
  EXPECT_EQ(replica.find(hash(1))->parent, std::nullopt);
  EXPECT_EQ(replica.find(hash(3))->parent, hash(2));
  EXPECT_EQ(replica.find(hash(4))->parent, hash(2));
  EXPECT_EQ(same_after_a_snapshot(replica), 4U);
  EXPECT_TRUE(replica.apply(gone({hash(3), hash(99)})));
  EXPECT_EQ(replica.find(hash(3)), nullptr);
  EXPECT_EQ(replica.blocks(), 3U);
  EXPECT_TRUE(replica.apply(AllBlocksCleared{}));
  EXPECT_EQ(replica.blocks(), 0U);
  EXPECT_EQ(replica.snapshot().size(), 1U);
}

TEST(KvReplica, ABlockStoredTwiceIsRemovedTwice) {
  KvReplica replica;
  replica.apply(chain({hash(1)}));
  replica.apply(chain({hash(1)}));
  replica.apply(gone({hash(1)}));
  EXPECT_EQ(replica.blocks(), 1U);
  EXPECT_EQ(same_after_a_snapshot(replica), 1U);
  replica.apply(gone({hash(1)}));
  EXPECT_EQ(replica.blocks(), 0U);
}

TEST(KvReplica, KeepsWhatAnEventSaysOfItsBlocks) {
  KvReplica replica;
  auto event = chain({std::string("\0bytes", 6), std::string("more")});
  event.lora_name = "adapter";
  event.extra_keys = {std::vector<ExtraKey>{"salt", MediaKey{"picture", -2}}, std::nullopt};
  event.place.medium = "CPU";
  replica.apply(event);
  const auto snapshot = replica.snapshot();
  ASSERT_EQ(snapshot.size(), 2U);
  EXPECT_EQ(std::get<BlockStored>(snapshot[1]), event);
}

TEST(KvReplica, BlocksOfBigramsOverlapByAToken) {
  KvReplica replica;
  BlockStored event = chain({hash(1), hash(2)});
  event.bigrams = true;
  event.token_ids = {10, 11, 12, 13, 14};
  EXPECT_TRUE(replica.apply(event));
  EXPECT_EQ(replica.find(hash(1))->tokens, (Tokens{10, 11, 12}));
  EXPECT_EQ(replica.find(hash(2))->tokens, (Tokens{12, 13, 14}));
  EXPECT_EQ(same_after_a_snapshot(replica), 2U);
}

TEST(KvReplica, RefusesEventsThatContradictThemselves) {
  KvReplica replica;
  auto short_of_tokens = chain({hash(1), hash(2)});
  short_of_tokens.token_ids.pop_back();
  EXPECT_FALSE(replica.apply(short_of_tokens));
  auto short_of_keys = chain({hash(1), hash(2)});
  short_of_keys.extra_keys.emplace(1);
  EXPECT_FALSE(replica.apply(short_of_keys));
  EXPECT_EQ(replica.blocks(), 0U);
}

TEST(Tiers, OfEverySpelling) {
  EXPECT_EQ(tier_of(std::nullopt), Tier::kDevice);
  EXPECT_EQ(tier_of("GPU"), Tier::kDevice);
  EXPECT_EQ(tier_of("CPU_PINNED"), Tier::kHost);
  EXPECT_EQ(tier_of("STORAGE"), Tier::kDisk);
  EXPECT_EQ(tier_of("SHARED"), Tier::kExternal);
  EXPECT_EQ(tier_of("gpu"), std::nullopt);
}

}  // namespace
}  // namespace kvern::kv
