// What an engine says about its prefix cache: blocks stored, removed, all gone. Plain values, as wide as the wires of
// vLLM and SGLang (engine/events), so that a batch decoded and encoded again is the same bytes. The embedded engine
// makes them (kv/block_tree.h); publishers carry them out; indexes follow them.
//
// A stream of batches in order, from the first, tells the exact set of blocks the engine keeps. A block is named by its
// engine's own hash, which nobody else needs to be able to compute: tokens and parent travel with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/token.h"

namespace kvern::kv {

/// An engine's own name of a block, opaque: 64 bits (a signed one on the wire is reinterpreted) or a string of bytes.
using EngineHash = std::variant<std::uint64_t, std::string>;

/// Where a block lies, nearest first.
enum class Tier : std::uint8_t { kDevice, kHost, kDisk, kExternal };

/// The tier that a `medium` of the wire names, in any of the field's spellings; absent means device. nullopt: unknown.
std::optional<Tier> tier_of(const std::optional<std::string>& medium);

/// A picture or the like whose content is part of a block's identity. `offset`: its first token, counted from the
/// block's first; negative when it began in an earlier block.
struct MediaKey {
  std::string id;
  std::int64_t offset = 0;
  bool operator==(const MediaKey&) const = default;
};
/// A key in a form not known here: the msgpack value as it came.
struct OpaqueKey {
  std::string msgpack;
  bool operator==(const OpaqueKey&) const = default;
};
/// What distinguishes blocks of equal tokens: LoRA name or cache salt (text), media, others.
using ExtraKey = std::variant<std::string, MediaKey, OpaqueKey>;
using ExtraKeys = std::optional<std::vector<ExtraKey>>;

/// Which cache a block is in, for engines that have several. Texts are the wire's.
struct CachePlace {
  std::optional<std::string> medium;  // see tier_of
  std::optional<std::uint32_t> group_idx;
  std::optional<std::string> spec_kind;  // full_attention, mla_attention, sliding_window, mamba...
  std::optional<std::uint32_t> sliding_window;
  std::optional<std::string> locality;   // LOCAL or REMOTE, as seen by the engine
  std::optional<std::string> ownership;  // names a secondary tier
  std::optional<std::string> source_kind;
  bool operator==(const CachePlace&) const = default;
};

/// A chain of blocks is kept from now on: the first after `parent` (absent: at the start of a prompt), each further one
/// after the one before it.
struct BlockStored {
  std::vector<EngineHash> block_hashes;  // in chain order
  std::optional<EngineHash> parent;
  Tokens token_ids;              // block_size for each hash, and one more with `bigrams`
  bool bigrams = false;          // the wire has pairs (token, next token), as engines with draft models store them
  std::uint32_t block_size = 0;  // tokens of a block
  std::optional<std::int64_t> lora_id;  // of old engines; the name is what counts
  std::optional<std::string> lora_name;
  std::optional<std::string> cache_salt;             // SGLang; vLLM has it among the extra keys
  std::optional<std::vector<ExtraKeys>> extra_keys;  // one entry a block; vLLM gives the salt at a prompt's first only
  std::optional<std::string> session_id;
  CachePlace place;
  bool operator==(const BlockStored&) const = default;
};

/// These blocks are gone. Unknown ones are to be ignored.
struct BlockRemoved {
  std::vector<EngineHash> block_hashes;
  CachePlace place;
  bool operator==(const BlockRemoved&) const = default;
};

/// Every block of the engine is gone.
struct AllBlocksCleared {
  std::optional<std::string> source_kind;
  bool operator==(const AllBlocksCleared&) const = default;
};

using KvEvent = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

/// What happened in one step of an engine, in order.
struct KvEventBatch {
  double timestamp_s = 0;  // seconds since the Unix epoch, by the engine's clock
  std::vector<KvEvent> events;
  std::optional<std::int32_t> data_parallel_rank;
  bool operator==(const KvEventBatch&) const = default;
};

/// Gets an engine's events. Called on the engine's thread, at most once a step, so it only hands them on and returns.
class KvEventSink {
 public:
  virtual ~KvEventSink() = default;
  /// The events of a step, in order. False: no room, they were dropped; the caller then owes a snapshot at once.
  virtual bool on_kv_events(std::vector<KvEvent> events) = 0;
  /// Makes up for what was dropped: AllBlocksCleared, then every block that is kept, parents first. Never refused.
  virtual void on_kv_snapshot(std::vector<KvEvent> events) = 0;
};

}  // namespace kvern::kv
