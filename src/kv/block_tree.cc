#include "kv/block_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::kv {

// Why the oldest block of the LRU list is always a leaf: chains are pinned and unpinned as a whole, and unpin appends
// the tail before its parents. So a parent nobody uses stands behind (is newer than) each of its children, and the head
// of the list can have no child left in front of it.

BlockTree::BlockTree(std::uint32_t capacity_blocks, std::uint32_t block_tokens)
    : capacity_blocks_(capacity_blocks), block_tokens_(block_tokens), log_(block_tokens) {
  KV_CHECK(block_tokens_ > 0);
  index_.reserve(std::min<std::uint32_t>(capacity_blocks_, 1U << 16U));
}

const BlockTree::Node& BlockTree::node(Ref block) const {
  KV_CHECK(block < nodes_.size() && nodes_[block].live);
  return nodes_[block];
}

BlockTree::Node& BlockTree::node(Ref block) {
  KV_CHECK(block < nodes_.size() && nodes_[block].live);
  return nodes_[block];
}

std::span<const TokenId> BlockTree::tokens(Ref block) const {
  return std::span(tokens_).subspan(std::size_t{block} * block_tokens_, block_tokens_);
}

std::span<const CellId> BlockTree::cells(Ref block) const {
  KV_CHECK(block < nodes_.size() && nodes_[block].live);
  return std::span(cells_).subspan(std::size_t{block} * block_tokens_, block_tokens_);
}

BlockTree::Ref BlockTree::find(std::uint32_t space, Ref parent, SequenceHash name) const {
  const auto found = index_.find(Key{name.value, parent, space});
  return found == index_.end() ? kNone : found->second;
}

std::vector<BlockTree::Ref> BlockTree::match(std::string_view name_space, std::span<const TokenId> tokens,
                                             std::span<const SequenceHash> names) const {
  std::vector<Ref> chain;
  const auto space = spaces_.find(name_space);
  if (space == spaces_.end()) return chain;
  const std::size_t whole = std::min<std::size_t>(names.size(), tokens.size() / block_tokens_);
  Ref parent = kNone;
  for (std::size_t i = 0; i < whole; ++i) {
    const Ref block = find(space->second.id, parent, names[i]);
    if (block == kNone) break;
    if (!std::ranges::equal(this->tokens(block), tokens.subspan(i * block_tokens_, block_tokens_))) break;
    chain.push_back(block);
    parent = block;
  }
  return chain;
}

BlockTree::Inserted BlockTree::insert(std::string_view name_space, Ref parent, SequenceHash name,
                                      std::span<const TokenId> tokens, std::span<const CellId> cells) {
  KV_CHECK(tokens.size() == block_tokens_ && cells.size() == block_tokens_);
  if (parent != kNone) KV_CHECK(node(parent).users > 0);
  const auto space = spaces_.find(name_space);
  if (space != spaces_.end()) {
    const Ref known = find(space->second.id, parent, name);
    if (known != kNone) {
      if (!std::ranges::equal(this->tokens(known), tokens)) return {Insertion::kCollision, kNone};
      // The caller's pins reach the parent; one more makes them reach this block.
      Node& duplicate = node(known);
      if (duplicate.users++ == 0) unlink(known);
      return {Insertion::kDuplicate, known};
    }
  }
  if (blocks_ >= capacity_blocks_) return {Insertion::kFull, kNone};

  auto home = space;
  if (home == spaces_.end()) {
    home = spaces_.emplace(std::string(name_space), Space{next_space_++, 0}).first;
    space_of_.emplace(home->second.id, home);
  }
  if (parent != kNone) KV_CHECK(node(parent).space == home->second.id);
  ++home->second.blocks;

  Ref block = static_cast<Ref>(nodes_.size());
  if (!unused_.empty()) {
    block = unused_.back();
    unused_.pop_back();
  } else {
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + block_tokens_);
    cells_.resize(cells_.size() + block_tokens_);
  }
  nodes_[block] =
      Node{.name = name, .parent = parent, .space = home->second.id, .users = 1, .children = 0, .live = true};
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * block_tokens_));
  std::ranges::copy(cells, cells_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * block_tokens_));
  index_.emplace(Key{name.value, parent, home->second.id}, block);
  if (parent != kNone) ++node(parent).children;
  ++blocks_;
  if (recording_) log_.stored(name_space, parent_name(block), name, tokens);
  return {Insertion::kInserted, block};
}

void BlockTree::pin(Ref tail) {
  for (Ref block = tail; block != kNone; block = node(block).parent) {
    if (node(block).users++ == 0) unlink(block);
  }
}

void BlockTree::unpin(Ref tail) {
  for (Ref block = tail; block != kNone; block = node(block).parent) {
    KV_CHECK(node(block).users > 0);
    if (--node(block).users == 0) append_newest(block);
  }
}

bool BlockTree::evict(std::vector<CellId>& freed) {
  const Ref block = oldest_;
  if (block == kNone) return false;
  const Node gone = node(block);
  KV_CHECK(gone.users == 0 && gone.children == 0);
  unlink(block);
  const auto its_cells = cells(block);
  freed.insert(freed.end(), its_cells.begin(), its_cells.end());
  index_.erase(Key{gone.name.value, gone.parent, gone.space});
  if (gone.parent != kNone) --node(gone.parent).children;
  nodes_[block].live = false;
  unused_.push_back(block);
  --blocks_;
  ++evicted_;
  drop_space(gone.space);
#ifdef KVERN_CANARY_LOST_EVENT
  if (recording_ && gone.parent == kNone) log_.removed(gone.name);
#else
  if (recording_) log_.removed(gone.name);
#endif
  return true;
}

void BlockTree::evict_all(std::vector<CellId>& freed) {
  const bool clears = blocks_ > 0 && evictable_ == blocks_;
  const bool records = std::exchange(recording_, recording_ && !clears);
  while (evict(freed)) {
  }
  recording_ = records;
  if (recording_ && clears) log_.cleared();
}

std::optional<SequenceHash> BlockTree::parent_name(Ref block) const {
  const Ref parent = node(block).parent;
  return parent == kNone ? std::nullopt : std::optional(node(parent).name);
}

std::vector<KvEvent> BlockTree::snapshot() const {
  // Children of each block as lists through the slab, then depth first, so that a chain is one event.
  std::vector<Ref> first_child(nodes_.size(), kNone);
  std::vector<Ref> next_sibling(nodes_.size(), kNone);
  std::vector<Ref> pending;
  for (Ref block = 0; block < nodes_.size(); ++block) {
    if (!nodes_[block].live) continue;
    const Ref parent = nodes_[block].parent;
    if (parent == kNone) {
      pending.push_back(block);
    } else {
      next_sibling[block] = std::exchange(first_child[parent], block);
    }
  }
  EventLog log(block_tokens_);
  log.cleared();
  while (!pending.empty()) {
    const Ref block = pending.back();
    pending.pop_back();
    const Node& each = nodes_[block];
    log.stored(space_of_.at(each.space)->first, parent_name(block), each.name, tokens(block));
    for (Ref child = first_child[block]; child != kNone; child = next_sibling[child]) pending.push_back(child);
  }
  return log.take();
}

void BlockTree::drop_space(std::uint32_t id) {
  const auto home = space_of_.find(id);
  if (--home->second->second.blocks > 0) return;
  spaces_.erase(home->second);
  space_of_.erase(home);
}

void BlockTree::append_newest(Ref block) {
  Node& added = node(block);
  added.older = newest_;
  added.newer = kNone;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = block;
  newest_ = block;
  ++evictable_;
}

void BlockTree::unlink(Ref block) {
  Node& removed = node(block);
  (removed.older == kNone ? oldest_ : nodes_[removed.older].newer) = removed.newer;
  (removed.newer == kNone ? newest_ : nodes_[removed.newer].older) = removed.older;
  removed.older = removed.newer = kNone;
  --evictable_;
}

void BlockTree::check() const {
  std::vector<std::uint32_t> children(nodes_.size(), 0);
  std::vector<std::uint32_t> users_below(nodes_.size(), 0);
  std::uint32_t live = 0;
  std::uint32_t unused_by_any = 0;
  for (Ref block = 0; block < nodes_.size(); ++block) {
    const Node& each = nodes_[block];
    if (!each.live) continue;
    ++live;
    unused_by_any += each.users == 0 ? 1 : 0;
    KV_CHECK(find(each.space, each.parent, each.name) == block);
    if (each.parent == kNone) continue;
    KV_CHECK(node(each.parent).space == each.space);
    ++children[each.parent];
    users_below[each.parent] += each.users;
  }
  KV_CHECK(live == blocks_ && live == index_.size() && live <= capacity_blocks_ && unused_by_any == evictable_);
  std::vector<bool> passed(nodes_.size(), false);
  std::uint32_t listed = 0;
  for (Ref block = oldest_; block != kNone; block = nodes_[block].newer) {
    KV_CHECK(node(block).users == 0);
    KV_CHECK(node(block).parent == kNone || !passed[node(block).parent]);
    passed[block] = true;
    ++listed;
  }
  KV_CHECK(listed == evictable_);
  std::uint32_t in_spaces = 0;
  for (const auto& [name, space] : spaces_) in_spaces += space.blocks;
  KV_CHECK(in_spaces == blocks_);
  for (Ref block = 0; block < nodes_.size(); ++block) {
    if (!nodes_[block].live) continue;
    KV_CHECK(nodes_[block].children == children[block] && nodes_[block].users >= users_below[block]);
  }
}

}  // namespace kvern::kv
