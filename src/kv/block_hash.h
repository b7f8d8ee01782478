// Names of cached blocks, bit for bit as NVIDIA Dynamo computes them, so that vectors and KV events of the field check
// against ours. A block hash names the tokens of one full block; a sequence hash names a block together with all that
// came before it. Both are hints: whoever hands out bytes by name compares the tokens too (kv/block_tree.h). Pure
// functions; a block of 16 tokens costs about 10 ns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/strong_id.h"
#include "base/token.h"

namespace kvern::kv {

using BlockHash = StrongId<struct BlockHashTag>;
using SequenceHash = StrongId<struct SequenceHashTag>;

inline constexpr std::uint32_t kBlockTokens = 16;

/// What separates equal tokens of different worlds. Empty means absent. `name_space` is a tenant or cache salt.
struct HashSalt {
  std::string_view lora;
  std::string_view name_space;
};

/// Seed of the block hashes under a salt: 1337 + XXH3(lora, 0) + XXH3(name_space, 1), each only when present.
std::uint64_t hash_seed(const HashSalt& salt) noexcept;

/// The hash of one full block: XXH3 of the tokens as little-endian u32, then of the block's media hashes, ascending.
BlockHash block_hash(std::span<const TokenId> tokens, std::uint64_t seed, std::span<const std::uint64_t> media = {});

/// The name of the block `block` after the one named `parent` (none: it is the first). The salt is in the block hash.
SequenceHash sequence_hash(std::optional<SequenceHash> parent, BlockHash block) noexcept;

/// Names the full blocks of a growing token sequence; work is proportional to the new tokens only. A value: copy it to
/// fork. `block_tokens` > 0.
class SequenceHasher {
 public:
  explicit SequenceHasher(const HashSalt& salt = {}, std::uint32_t block_tokens = kBlockTokens) noexcept
      : seed_(hash_seed(salt)), block_tokens_(block_tokens) {}
  /// Continues after a known prefix of full blocks, named by its last block.
  SequenceHasher(const HashSalt& salt, std::uint32_t block_tokens, SequenceHash last, std::size_t blocks) noexcept
      : seed_(hash_seed(salt)), block_tokens_(block_tokens), last_(last), blocks_(blocks) {}

  /// Appends to `names` the names of the full blocks of `tokens` not named yet. `tokens` is the whole sequence from its
  /// first token, and only grows from call to call; a partial block at its end waits.
  void extend(std::span<const TokenId> tokens, std::vector<SequenceHash>& names);

  /// Blocks named so far, prefix included.
  std::size_t blocks() const noexcept { return blocks_; }

 private:
  std::uint64_t seed_;
  std::uint32_t block_tokens_;
  std::optional<SequenceHash> last_;
  std::size_t blocks_ = 0;
};

}  // namespace kvern::kv
