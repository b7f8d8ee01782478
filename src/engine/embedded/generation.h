// One request inside the embedded engine, from submit to its last event. Plain data of the scheduler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/embedded/backend.h"
#include "engine/engine.h"
#include "kv/block_hash.h"
#include "kv/block_tree.h"

namespace kvern::engine {

/// What a preempted request had computed and the tree of blocks does not keep, in host memory.
struct Parked {
  std::uint32_t from = 0;  // positions [from, to)
  std::uint32_t to = 0;
  std::vector<std::byte> state;
};

struct Generation {
  GenerateRequest request;  // its prompt has moved to `tokens`
  std::shared_ptr<EventSink> sink;
  std::uint64_t arrival = 0;
  std::uint32_t prompt_tokens = 0;

  Tokens tokens;                // prompt, then what was generated
  std::uint32_t generated = 0;  // drawn so far
  bool accepted = false;        // Accepted was sent
  std::unique_ptr<TokenSampler> sampler;

  // While running.
  SequenceId sequence = -1;
  std::uint32_t computed = 0;     // tokens that have their cell
  std::uint32_t prefill_end = 0;  // positions below it count as prefill
  std::uint32_t chunk = 0;        // tokens of it in the batch being made
  std::int32_t boost = 0;         // the highest priority of those who wait for its blocks

  // Its chain in the tree of blocks.
  kv::SequenceHasher hasher;
  std::vector<kv::SequenceHash> names;             // of the full blocks of `tokens`
  kv::BlockTree::Ref tail = kv::BlockTree::kNone;  // pinned up to here
  std::uint32_t blocks = 0;                        // length of that chain
  std::uint32_t announced = 0;                     // names below it may be announced as under way
  bool caching = true;                             // false: its further blocks stay private

  std::optional<Parked> parked;  // while waiting after a preemption

  // While waiting: who is computing the next block it needs, and how many blocks to wait for. 0: nobody.
  RequestId awaited;
  std::uint32_t awaited_blocks = 0;

  std::uint32_t left() const { return request.max_tokens - generated; }
  std::uint32_t pending() const { return static_cast<std::uint32_t>(tokens.size()) - computed; }
  std::int32_t urgency() const { return std::max(request.priority, boost); }
};

}  // namespace kvern::engine
