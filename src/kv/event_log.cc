#include "kv/event_log.h"

#include <string>
#include <utility>

namespace kvern::kv {
namespace {

// What vLLM calls the memory next to the compute, and its only group in a model of one kind of attention.
CachePlace device_place() {
  CachePlace place;
  place.medium = "GPU";
  place.group_idx = 0;
  return place;
}

// An event stays well below what a subscriber takes: 1,024 blocks are some 80 KB.
constexpr std::size_t kBlocksPerEventMax = 1024;

}  // namespace

void EventLog::stored(std::string_view name_space, std::optional<SequenceHash> parent, SequenceHash name,
                      std::span<const TokenId> tokens) {
  BlockStored* event = events_.empty() ? nullptr : std::get_if<BlockStored>(&events_.back());
  const bool joins = event != nullptr && parent && event->block_hashes.size() < kBlocksPerEventMax &&
                     event->block_hashes.back() == EngineHash(parent->value);
  if (!joins) {
    event = &std::get<BlockStored>(events_.emplace_back(BlockStored{}));
    if (parent) event->parent = parent->value;
    event->block_size = block_tokens_;
    event->extra_keys.emplace();
    event->place = device_place();
    event->place.spec_kind = "full_attention";
  }
  event->block_hashes.emplace_back(name.value);
  event->token_ids.insert(event->token_ids.end(), tokens.begin(), tokens.end());
  ExtraKeys& keys = event->extra_keys->emplace_back();
  if (!parent && !name_space.empty()) keys.emplace().emplace_back(std::string(name_space));
}

void EventLog::removed(SequenceHash name) {
  BlockRemoved* event = events_.empty() ? nullptr : std::get_if<BlockRemoved>(&events_.back());
  if (event == nullptr || event->block_hashes.size() >= kBlocksPerEventMax) {
    event = &std::get<BlockRemoved>(events_.emplace_back(BlockRemoved{{}, device_place()}));
  }
  event->block_hashes.emplace_back(name.value);
}

void EventLog::cleared() { events_.emplace_back(AllBlocksCleared{}); }

std::vector<KvEvent> EventLog::take() { return std::exchange(events_, {}); }

}  // namespace kvern::kv
