#include "prompt/token_cache.h"

#include <functional>

namespace kvern::prompt {
namespace {

constexpr std::size_t kEntryBytes = 160;  // list and hash nodes, and what malloc adds
constexpr std::size_t kShareMax = 8;      // an entry takes at most this part of its shard

}  // namespace

std::size_t TokenCache::Entry::bytes() const {
  return text.capacity() + tokens.capacity() * sizeof(TokenId) + kEntryBytes;
}

TokenCache::Shard& TokenCache::shard_of(std::string_view text) {
  // The map inside uses the low bits of the same hash.
  return shards_[(std::hash<std::string_view>{}(text) >> 48U) % kShards];
}

bool TokenCache::find(std::string_view text, Tokens& out) {
  Shard& shard = shard_of(text);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_text.find(text);
  if (found == shard.by_text.end()) return false;
  const auto& tokens = found->second->tokens;
  out.insert(out.end(), tokens.begin(), tokens.end());
  shard.order.splice(shard.order.begin(), shard.order, found->second);
  return true;
}

void TokenCache::insert(std::string_view text, std::span<const TokenId> tokens) {
  Entry entry{std::string(text), Tokens(tokens.begin(), tokens.end())};
  const std::size_t bytes = entry.bytes();
  if (bytes > shard_bytes_max_ / kShareMax) return;
  Shard& shard = shard_of(text);
  const std::lock_guard lock(shard.mutex);
  if (shard.by_text.contains(text)) return;  // another request was as fast
  shard.order.push_front(std::move(entry));
  shard.by_text.emplace(shard.order.front().text, shard.order.begin());
  shard.bytes += bytes;
  while (shard.bytes > shard_bytes_max_) {
    const Entry& oldest = shard.order.back();
    shard.bytes -= oldest.bytes();
    shard.by_text.erase(oldest.text);
    shard.order.pop_back();
  }
}

std::size_t TokenCache::bytes() {
  std::size_t sum = 0;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    sum += shard.bytes;
  }
  return sum;
}

}  // namespace kvern::prompt
