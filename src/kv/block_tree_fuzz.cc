// Bytes as a script of requests on a small tree: match, insert with names that may collide, pin, unpin, evict. Checks
// the invariants after each step, that a match never returns other tokens, that no cell is owned twice, and that the
// events add up to the names in the tree.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/check.h"
#include "kv/block_tree.h"

namespace {

using kvern::TokenId;
using kvern::Tokens;
using kvern::kv::BlockTree;
using kvern::kv::CellId;
using kvern::kv::SequenceHash;

constexpr std::uint32_t kBlock = 2;

/// A chain the tree was given, as its user remembers it.
struct User {
  BlockTree::Ref tail = BlockTree::kNone;
  Tokens tokens;
  bool other_space = false;
};

/// How often each name is in the tree, as events tell it. Names collide here, so they are counted.
void follow(std::map<std::uint64_t, int>& names, const std::vector<kvern::kv::KvEvent>& events) {
  for (const auto& event : events) {
    if (const auto* stored = std::get_if<kvern::kv::BlockStored>(&event)) {
      KV_CHECK(stored->token_ids.size() == stored->block_hashes.size() * kBlock);
      for (const auto& hash : stored->block_hashes) ++names[std::get<std::uint64_t>(hash)];
    } else if (const auto* removed = std::get_if<kvern::kv::BlockRemoved>(&event)) {
      for (const auto& hash : removed->block_hashes) {
        const auto found = names.find(std::get<std::uint64_t>(hash));
        KV_CHECK(found != names.end());
        if (--found->second == 0) names.erase(found);
      }
    } else {
      names.clear();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  BlockTree tree(12, kBlock);
  tree.record_events();
  std::map<std::uint64_t, int> told;
  std::vector<User> users;
  std::set<CellId> owned;
  CellId next_cell = 0;
  const auto evict = [&] {
    std::vector<CellId> freed;
    const bool done = tree.evict(freed);
    for (const CellId cell : freed) KV_CHECK(owned.erase(cell) == 1);
    return done;
  };
  for (std::size_t at = 0; at + 1 < size; at += 2) {
    const std::uint8_t what = data[at];
    const std::uint8_t how = data[at + 1];
    if (what % 4 == 0 && !users.empty()) {
      const std::size_t who = how % users.size();
      if (users[who].tail != BlockTree::kNone) tree.unpin(users[who].tail);
      users.erase(users.begin() + static_cast<std::ptrdiff_t>(who));
    } else if (what % 4 == 1) {
      evict();
    } else {
      // A prompt of up to four blocks; only two bits of name, so that names collide all the time.
      User user{BlockTree::kNone, {}, (what & 4U) != 0};
      const char* space = user.other_space ? "other" : "";
      std::vector<SequenceHash> names;
      Tokens tokens;
      for (unsigned i = 0; i < 4; ++i) {
        const auto token = static_cast<TokenId>((how >> (2 * i)) & 3U);
        tokens.insert(tokens.end(), kBlock, token);
        names.push_back(SequenceHash{(what & 8U) != 0 ? 1ULL : static_cast<std::uint64_t>(token) & 1U});
      }
      const auto chain = tree.match(space, tokens, names);
      if (!chain.empty()) {
        user.tail = chain.back();
        tree.pin(user.tail);
      }
      for (std::size_t i = chain.size(); i < names.size(); ++i) {
        std::vector<CellId> cells{next_cell, next_cell + 1};
        const auto part = std::span(tokens).subspan(i * kBlock, kBlock);
        auto inserted = tree.insert(space, user.tail, names[i], part, cells);
        if (inserted.outcome == BlockTree::Insertion::kFull && evict()) {
          inserted = tree.insert(space, user.tail, names[i], part, cells);
        }
        if (inserted.block == BlockTree::kNone) break;
        if (inserted.outcome == BlockTree::Insertion::kInserted) {
          for (const CellId cell : cells) KV_CHECK(owned.insert(cell).second);
          next_cell += kBlock;
        }
        user.tail = inserted.block;
        // What was inserted is found again, by its exact tokens.
        const auto found = tree.match(space, std::span(tokens).first((i + 1) * kBlock), std::span(names).first(i + 1));
        KV_CHECK(found.size() == i + 1 && found.back() == user.tail);
      }
      user.tokens = std::move(tokens);
      if (user.tail != BlockTree::kNone) users.push_back(std::move(user));
    }
    tree.check();
    KV_CHECK(owned.size() == tree.blocks() * kBlock);
    follow(told, tree.take_events());
    std::map<std::uint64_t, int> there;
    follow(there, tree.snapshot());
    KV_CHECK(told == there);
  }
  for (const User& user : users) tree.unpin(user.tail);
  while (evict()) {
  }
  KV_CHECK(tree.blocks() == 0 && owned.empty());
  return 0;
}
