#include "kv/kv_replica.h"

#include <algorithm>
#include <utility>

namespace kvern::kv {
namespace {

BlockStored without_blocks(const BlockStored& event) {
  BlockStored rest;
  rest.block_size = event.block_size;
  rest.bigrams = event.bigrams;
  rest.lora_id = event.lora_id;
  rest.lora_name = event.lora_name;
  rest.cache_salt = event.cache_salt;
  if (event.extra_keys) rest.extra_keys.emplace();
  rest.session_id = event.session_id;
  rest.place = event.place;
  return rest;
}

}  // namespace

bool KvReplica::apply(const KvEvent& event) {
  if (const auto* stored = std::get_if<BlockStored>(&event)) return store(*stored);
  if (const auto* removed = std::get_if<BlockRemoved>(&event)) {
    remove(*removed);
  } else {
    blocks_.clear();
  }
  return true;
}

bool KvReplica::store(const BlockStored& event) {
  const std::size_t count = event.block_hashes.size();
  // A block of bigrams holds the first token of the next one too.
  const std::size_t shared = event.bigrams && count > 0 ? 1 : 0;
  if (event.token_ids.size() != count * event.block_size + shared) return false;
  if (event.extra_keys && event.extra_keys->size() != count) return false;
  BlockStored rest = without_blocks(event);
  if (!rest_ || *rest_ != rest) rest_ = std::make_shared<const BlockStored>(std::move(rest));
  std::optional<EngineHash> parent = event.parent;
  for (std::size_t i = 0; i < count; ++i) {
    const EngineHash& hash = event.block_hashes[i];
    const auto [at, fresh] = blocks_.try_emplace(hash);
    if (fresh) {
      Entry& entry = at->second;
      const auto first = event.token_ids.begin() + static_cast<std::ptrdiff_t>(i * event.block_size);
      entry.block.tokens.assign(first, first + static_cast<std::ptrdiff_t>(event.block_size + shared));
      entry.block.parent = std::move(parent);
      if (event.extra_keys) entry.block.extra_keys = (*event.extra_keys)[i];
      entry.rest = rest_;
      entry.order = stored_++;
    } else {
      ++at->second.copies;
    }
    parent = hash;
  }
  return true;
}

void KvReplica::remove(const BlockRemoved& event) {
  for (const EngineHash& hash : event.block_hashes) {
    const auto found = blocks_.find(hash);
    if (found != blocks_.end() && --found->second.copies == 0) blocks_.erase(found);
  }
}

const KvReplica::Block* KvReplica::find(const EngineHash& hash) const {
  const auto found = blocks_.find(hash);
  return found == blocks_.end() ? nullptr : &found->second.block;
}

std::vector<KvEvent> KvReplica::snapshot() const {
  // A parent is older than its children, unless it was removed and came back; then its children stand as if it had not
  // come yet, and whoever reads it knows parents by hash anyway.
  using Item = std::pair<const EngineHash, Entry>;
  std::vector<const Item*> oldest_first;
  oldest_first.reserve(blocks_.size());
  for (const Item& item : blocks_) oldest_first.push_back(&item);
  std::ranges::sort(oldest_first, {}, [](const Item* item) { return item->second.order; });

  std::vector<KvEvent> events;
  events.emplace_back(AllBlocksCleared{});
  BlockStored* open = nullptr;
  const BlockStored* open_rest = nullptr;
  for (const Item* item : oldest_first) {
    const auto& [hash, entry] = *item;
    const Block& block = entry.block;
    for (std::uint32_t copy = 0; copy < entry.copies; ++copy) {
      const bool joins = open != nullptr && open_rest == entry.rest.get() && !entry.rest->bigrams &&
                         block.parent == open->block_hashes.back() && open->block_hashes.size() < 1024;
      if (!joins) {
        open = &std::get<BlockStored>(events.emplace_back(*entry.rest));
        open_rest = entry.rest.get();
        open->parent = block.parent;
      }
      open->block_hashes.push_back(hash);
      open->token_ids.insert(open->token_ids.end(), block.tokens.begin(), block.tokens.end());
      if (open->extra_keys) open->extra_keys->push_back(block.extra_keys);
    }
  }
  return events;
}

}  // namespace kvern::kv
