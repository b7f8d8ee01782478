#include "prompt/token_cache.h"

#include <functional>

namespace kvern::prompt {
namespace {

constexpr std::size_t kEntryBytes = 208;  // list and hash nodes, and what malloc adds
constexpr std::size_t kShareMax = 8;      // an entry takes at most this part of its shard

}  // namespace

std::size_t TokenCache::Entry::bytes() const {
  return name_space.capacity() + text.capacity() + tokens.capacity() * sizeof(TokenId) + kEntryBytes;
}

std::size_t TokenCache::Hash::operator()(const Key& key) const {
  constexpr std::size_t kOdd = 0x9E3779B97F4A7C15U;
  const std::hash<std::string_view> hash;
  return hash(key.text) ^ (hash(key.name_space) * kOdd);
}

TokenCache::Shard& TokenCache::shard_of(const Key& key) {
  // The map inside uses the low bits of the same hash.
  return shards_[(Hash{}(key) >> 48U) % kShards];
}

bool TokenCache::find(std::string_view name_space, std::string_view text, Tokens& out) {
  const Key key{name_space, text};
  Shard& shard = shard_of(key);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found == shard.by_key.end()) return false;
  const auto& tokens = found->second->tokens;
  out.insert(out.end(), tokens.begin(), tokens.end());
  shard.order.splice(shard.order.begin(), shard.order, found->second);
  return true;
}

void TokenCache::insert(std::string_view name_space, std::string_view text, std::span<const TokenId> tokens) {
  Entry entry{std::string(name_space), std::string(text), Tokens(tokens.begin(), tokens.end())};
  const std::size_t bytes = entry.bytes();
  if (bytes > shard_bytes_max_ / kShareMax) return;
  Shard& shard = shard_of(entry.key());
  const std::lock_guard lock(shard.mutex);
  if (shard.by_key.contains(entry.key())) return;  // another request was as fast
  shard.order.push_front(std::move(entry));
  shard.by_key.emplace(shard.order.front().key(), shard.order.begin());
  shard.bytes += bytes;
  while (shard.bytes > shard_bytes_max_) {
    const Entry& oldest = shard.order.back();
    shard.bytes -= oldest.bytes();
    shard.by_key.erase(oldest.key());
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
