// The tree of cached blocks: which token prefixes are kept, and in which cells of the engine's pool. A node is one full
// block; its path from the root is the prefix. Mechanism only: no engine, thread or clock in it, one owner.
//
// Promises
// - Exact: a lookup compares the tokens of every block and starts at the root of its own namespace, so a forged hash
//   collision costs a miss, never another prompt's cells, and namespaces never meet.
// - A block in use (pinned, or below it one that is) is never evicted; others go in LRU order, leaves before parents.
// - Bounded by `capacity_blocks`. Every operation is O(1) per block of the chain it is about.
// - With record_events, what is stored and removed is written down in order, for who keeps books elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.h"
#include "kv/block_hash.h"
#include "kv/event_log.h"

namespace kvern::kv {

/// A cell of an engine's KV pool: room for the keys and values of one token.
using CellId = std::uint32_t;

class BlockTree {
 public:
  /// A block in this tree; valid until that block is evicted (so as long as it is pinned).
  using Ref = std::uint32_t;
  static constexpr Ref kNone = ~Ref{0};

  enum class Insertion : std::uint8_t {
    kInserted,   // the tree now owns the cells
    kDuplicate,  // the same block is there already; `block` names it, the given cells stay the caller's
    kCollision,  // another block has this hash under this parent; the cells stay the caller's, the block uncached
    kFull,       // at capacity: evict first
  };
  struct Inserted {
    Insertion outcome;
    Ref block;  // kNone for kCollision and kFull
  };

  explicit BlockTree(std::uint32_t capacity_blocks, std::uint32_t block_tokens = kBlockTokens);

  /// The longest cached chain of whole blocks at the start of `tokens`, root first. `names` are the sequence hashes of
  /// its full blocks. Changes nothing: pin what you mean to use.
  std::vector<Ref> match(std::string_view name_space, std::span<const TokenId> tokens,
                         std::span<const SequenceHash> names) const;

  /// Adds the block after `parent` (kNone: the first of `name_space`). `parent` must be pinned by the caller, so that
  /// it cannot go meanwhile. The new block, or the duplicate found, is pinned once more for the caller: its chain is
  /// then pinned from the root to it.
  Inserted insert(std::string_view name_space, Ref parent, SequenceHash name, std::span<const TokenId> tokens,
                  std::span<const CellId> cells);

  /// Pins the chain from the root to `tail`, for one user.
  void pin(Ref tail);
  /// Takes that back. The chain becomes the most recently used, its tail older than its head.
  void unpin(Ref tail);

  /// Removes the least recently used block nobody uses and appends its cells to `freed`. False when there is none.
  bool evict(std::vector<CellId>& freed);

  /// Evicts every block nobody uses. Where that leaves none, the events say AllBlocksCleared.
  void evict_all(std::vector<CellId>& freed);

  /// From now on events are recorded, until taken: the owner takes them after each step, which bounds them.
  void record_events() { recording_ = true; }
  std::vector<KvEvent> take_events() { return log_.take(); }
  /// AllBlocksCleared, then every block there is, parents first. O(blocks). Events not taken yet are part of it.
  std::vector<KvEvent> snapshot() const;

  std::span<const CellId> cells(Ref block) const;
  Ref parent(Ref block) const { return node(block).parent; }
  std::uint32_t users(Ref block) const { return node(block).users; }

  std::uint32_t block_tokens() const { return block_tokens_; }
  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t blocks_used() const { return blocks_ - evictable_; }
  /// All of these can be evicted one after the other.
  std::uint32_t blocks_evictable() const { return evictable_; }
  std::uint32_t capacity_blocks() const { return capacity_blocks_; }
  std::uint64_t evicted() const { return evicted_; }

  /// Walks everything and checks the invariants (KV_CHECK). For tests and debug builds; O(blocks).
  void check() const;

 private:
  // Nodes live in a slab, their tokens and cells in two arrays beside it, so a block costs no allocation of its own.
  struct Node {
    SequenceHash name;
    Ref parent = kNone;       // kNone: first of its namespace
    std::uint32_t space = 0;  // namespace id
    std::uint32_t users = 0;
    std::uint32_t children = 0;
    Ref older = kNone;  // LRU list of the blocks nobody uses
    Ref newer = kNone;
    bool live = false;
  };
  /// Where a block is looked up: under its exact parent, so a chain is right as a whole when each step is.
  struct Key {
    std::uint64_t name;
    Ref parent;
    std::uint32_t space;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return static_cast<std::size_t>((key.name ^ key.parent) * 0x9E3779B97F4A7C15ULL + key.space);
    }
  };
  struct Space {
    std::uint32_t id = 0;
    std::uint32_t blocks = 0;
  };

  const Node& node(Ref block) const;
  Node& node(Ref block);
  std::span<const TokenId> tokens(Ref block) const;
  Ref find(std::uint32_t space, Ref parent, SequenceHash name) const;
  void append_newest(Ref block);
  void unlink(Ref block);
  void drop_space(std::uint32_t id);
  std::optional<SequenceHash> parent_name(Ref block) const;

  const std::uint32_t capacity_blocks_;
  const std::uint32_t block_tokens_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<CellId> cells_;
  std::vector<Ref> unused_;
  std::unordered_map<Key, Ref, KeyHash> index_;
  std::map<std::string, Space, std::less<>> spaces_;  // only those with blocks
  std::unordered_map<std::uint32_t, std::map<std::string, Space, std::less<>>::iterator> space_of_;
  std::uint32_t next_space_ = 0;
  Ref oldest_ = kNone;
  Ref newest_ = kNone;
  std::uint32_t blocks_ = 0;
  std::uint32_t evictable_ = 0;
  std::uint64_t evicted_ = 0;
  bool recording_ = false;
  EventLog log_;
};

}  // namespace kvern::kv
