// Remembers the tokens of texts that were tokenised before: system prompts and earlier messages come again with every
// turn. Exact: the text itself is compared, so what is found is what tokenising would give. Bounded in bytes, least
// recently used first, shared by all requests of a model.
//
// An entry is found in the namespace it was kept in and in no other: by the time it takes to tokenise a text a tenant
// learns nothing of what another sent, as with the prefix cache (SECURITY.md).
//
// Thread-safe; a lookup takes one of a few mutexes and is a hash and a comparison of the text.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/token.h"

namespace kvern::prompt {

class TokenCache {
 public:
  explicit TokenCache(std::size_t bytes_max) : shard_bytes_max_(bytes_max / kShards) {}
  TokenCache(const TokenCache&) = delete;
  TokenCache& operator=(const TokenCache&) = delete;

  /// Appends the tokens of `text`; false when it is not known in `name_space`.
  bool find(std::string_view name_space, std::string_view text, Tokens& out);
  /// A text that would take more than an eighth of its shard is not kept.
  void insert(std::string_view name_space, std::string_view text, std::span<const TokenId> tokens);
  /// What is kept, by the same count as the bound. For tests; O(1) per shard.
  std::size_t bytes();

 private:
  static constexpr std::size_t kShards = 8;
  struct Key {
    std::string_view name_space;
    std::string_view text;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    std::string name_space;
    std::string text;
    Tokens tokens;
    Key key() const { return {name_space, text}; }
    std::size_t bytes() const;
  };
  using Order = std::list<Entry>;  // most recently used first
  struct Shard {
    std::mutex mutex;
    Order order;
    std::unordered_map<Key, Order::iterator, Hash> by_key;  // views of the entries' own texts
    std::size_t bytes = 0;
  };

  Shard& shard_of(const Key& key);

  const std::size_t shard_bytes_max_;
  std::array<Shard, kShards> shards_;
};

}  // namespace kvern::prompt
