// The blocks of an engine as its events tell them: what a follower of the stream knows. Feeds on events from the first
// or from a snapshot, and gives snapshots itself. For engines with one group of caches in one tier, as kvern's own;
// a block stored twice is kept until it is removed twice. One owner; O(1) per block, about 250 bytes each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/kv_event.h"

namespace kvern::kv {

class KvReplica {
 public:
  struct Block {
    std::optional<EngineHash> parent;
    Tokens tokens;
    ExtraKeys extra_keys;
    bool operator==(const Block&) const = default;
  };

  /// False for an event that contradicts itself (tokens that do not make its blocks), which changes nothing.
  bool apply(const KvEvent& event);

  const Block* find(const EngineHash& hash) const;
  std::size_t blocks() const { return blocks_.size(); }
  /// Calls `visit(hash, block)` for each, in no order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [hash, entry] : blocks_) visit(hash, entry.block);
  }

  /// AllBlocksCleared, then events that store every block: parents before children, else oldest first. O(n log n).
  std::vector<KvEvent> snapshot() const;

 private:
  struct Entry {
    Block block;
    std::shared_ptr<const BlockStored> rest;  // what the blocks of an event share; lists are empty
    std::uint64_t order = 0;
    std::uint32_t copies = 1;
  };
  bool store(const BlockStored& event);
  void remove(const BlockRemoved& event);

  std::unordered_map<EngineHash, Entry> blocks_;
  std::shared_ptr<const BlockStored> rest_;  // the last one, most often the next one too
  std::uint64_t stored_ = 0;
};

}  // namespace kvern::kv
