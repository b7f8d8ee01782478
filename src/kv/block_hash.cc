#include "kv/block_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace kvern::kv {
namespace {

constexpr std::uint64_t kSeed = 1337;

// The names are defined over little-endian bytes; every machine kvern builds for is one.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(TokenId) == 4);

}  // namespace

std::uint64_t hash_seed(const HashSalt& salt) noexcept {
  std::uint64_t seed = kSeed;
  if (!salt.lora.empty()) seed += XXH3_64bits_withSeed(salt.lora.data(), salt.lora.size(), 0);
  if (!salt.name_space.empty()) seed += XXH3_64bits_withSeed(salt.name_space.data(), salt.name_space.size(), 1);
  return seed;
}

BlockHash block_hash(std::span<const TokenId> tokens, std::uint64_t seed, std::span<const std::uint64_t> media) {
  if (media.empty()) return BlockHash{XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), seed)};
  std::vector<std::uint64_t> ordered(media.begin(), media.end());
  std::sort(ordered.begin(), ordered.end());
  std::vector<unsigned char> bytes(tokens.size_bytes() + ordered.size() * sizeof(std::uint64_t));
  if (!tokens.empty()) std::memcpy(bytes.data(), tokens.data(), tokens.size_bytes());
  std::memcpy(bytes.data() + tokens.size_bytes(), ordered.data(), ordered.size() * sizeof(std::uint64_t));
  return BlockHash{XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed)};
}

SequenceHash sequence_hash(std::optional<SequenceHash> parent, BlockHash block) noexcept {
  if (!parent) return SequenceHash{block.value};
  const std::array<std::uint64_t, 2> pair{parent->value, block.value};
  return SequenceHash{XXH3_64bits_withSeed(pair.data(), sizeof(pair), kSeed)};
}

void SequenceHasher::extend(std::span<const TokenId> tokens, std::vector<SequenceHash>& names) {
  KV_CHECK(tokens.size() / block_tokens_ >= blocks_);
  for (; (blocks_ + 1) * block_tokens_ <= tokens.size(); ++blocks_) {
    last_ = sequence_hash(last_, block_hash(tokens.subspan(blocks_ * block_tokens_, block_tokens_), seed_));
    names.push_back(*last_);
  }
}

}  // namespace kvern::kv
