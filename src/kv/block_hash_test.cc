#include "kv/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>

namespace kvern::kv {
namespace {

Tokens counting(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<std::uint64_t> block_hashes(const Tokens& tokens, const HashSalt& salt) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t at = 0; at + 16 <= tokens.size(); at += 16) {
    hashes.push_back(block_hash(std::span(tokens).subspan(at, 16), hash_seed(salt)).value);
  }
  return hashes;
}

using Hashes = std::vector<std::uint64_t>;

TEST(BlockHash, MatchesTheReferenceForPlainTokens) {
  EXPECT_EQ(block_hashes(counting(1, 32), {}), (Hashes{16863443419780771464U, 2287610619914608821U}));
}

TEST(BlockHash, MatchesTheReferenceForALora) {
  EXPECT_EQ(block_hashes(counting(1, 32), {.lora = "my-lora", .name_space = {}}),
            (Hashes{4148081000444450790U, 2866551892415683476U}));
}

TEST(BlockHash, MatchesTheReferenceForANamespace) {
  EXPECT_EQ(block_hashes(counting(1, 32), {.lora = {}, .name_space = "t1"}),
            (Hashes{16572283806547432492U, 6112266439317987931U}));
}

TEST(BlockHash, MatchesTheReferenceForMedia) {
  const std::vector<std::uint64_t> media{0xDEADBEEF};
  EXPECT_EQ(block_hash(counting(0, 16), hash_seed({}), media).value, 10080518416733111448U);
}

TEST(BlockHash, MediaCountInAnyOrder) {
  const std::vector<std::uint64_t> up{1, 2};
  const std::vector<std::uint64_t> down{2, 1};
  EXPECT_EQ(block_hash(counting(0, 16), 7, up), block_hash(counting(0, 16), 7, down));
}

TEST(BlockHash, AnEmptySaltIsNone) { EXPECT_EQ(hash_seed({.lora = "", .name_space = ""}), 1337U); }

TEST(SequenceHash, MatchesTheReference) {
  std::vector<SequenceHash> names;
  SequenceHasher().extend(counting(0, 160), names);
  ASSERT_EQ(names.size(), 10U);
  EXPECT_EQ(static_cast<std::int64_t>(names[0].value), -3136036677815684470);
  EXPECT_EQ(static_cast<std::int64_t>(names[1].value), -4677586368451018952);
  EXPECT_EQ(static_cast<std::int64_t>(names[2].value), -6566916317599637088);
}

TEST(SequenceHash, GrowsAsItsTokensDo) {
  const Tokens all = counting(5, 100);
  std::vector<SequenceHash> at_once;
  SequenceHasher().extend(all, at_once);
  for (std::size_t step = 1; step < 40; ++step) {
    std::vector<SequenceHash> grown;
    SequenceHasher hasher;
    for (std::size_t size = 0; size < all.size(); size += step) hasher.extend(std::span(all).first(size), grown);
    hasher.extend(all, grown);
    EXPECT_EQ(grown, at_once) << "step " << step;
  }
}

TEST(SequenceHash, ContinuesFromAKnownPrefix) {
  const Tokens all = counting(5, 100);
  std::vector<SequenceHash> names;
  SequenceHasher({}, 8).extend(all, names);
  std::vector<SequenceHash> rest;
  SequenceHasher continued({}, 8, names[4], 5);
  continued.extend(all, rest);
  EXPECT_EQ(rest, std::vector<SequenceHash>(names.begin() + 5, names.end()));
  EXPECT_EQ(continued.blocks(), 12U);
}

TEST(SequenceHash, APartialBlockHasNoName) {
  std::vector<SequenceHash> names;
  SequenceHasher().extend(counting(0, 15), names);
  EXPECT_TRUE(names.empty());
}

}  // namespace
}  // namespace kvern::kv
