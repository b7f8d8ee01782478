#include "kv/block_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <string>

#include "base/rng.h"
#include "kv/kv_replica.h"

namespace kvern::kv {
namespace {

constexpr std::uint32_t kBlock = 4;

Tokens counting(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<SequenceHash> names_of(std::string_view space, const Tokens& tokens) {
  std::vector<SequenceHash> names;
  SequenceHasher({.lora = {}, .name_space = space}, kBlock).extend(tokens, names);
  return names;
}

/// A tree with a pool of cells beside it, and whole prompts as its vocabulary.
class BlockTreeTest : public testing::Test {
 protected:
  /// Keeps the prompt's full blocks and returns its pinned tail.
  BlockTree::Ref keep(const Tokens& tokens, std::string_view space = "") {
    const auto names = names_of(space, tokens);
    BlockTree::Ref tail = BlockTree::kNone;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::vector<CellId> cells(kBlock);
      std::iota(cells.begin(), cells.end(), next_cell_);
      const auto inserted = tree_.insert(space, tail, names[i], std::span(tokens).subspan(i * kBlock, kBlock), cells);
      EXPECT_NE(inserted.block, BlockTree::kNone);
      if (inserted.outcome == BlockTree::Insertion::kInserted) next_cell_ += kBlock;
      tail = inserted.block;
    }
    tree_.check();
    return tail;
  }
  void keep_and_leave(const Tokens& tokens, std::string_view space = "") { tree_.unpin(keep(tokens, space)); }
  std::size_t cached(const Tokens& tokens, std::string_view space = "") {
    return tree_.match(space, tokens, names_of(space, tokens)).size();
  }
  bool evict() {
    freed_.clear();
    const bool done = tree_.evict(freed_);
    tree_.check();
    return done;
  }

  BlockTree tree_{8, kBlock};
  CellId next_cell_ = 0;
  std::vector<CellId> freed_;
};

TEST_F(BlockTreeTest, FindsTheLongestChainOfWholeBlocks) {
  keep_and_leave(counting(0, 11));
  EXPECT_EQ(tree_.blocks(), 2U);
  EXPECT_EQ(cached(counting(0, 40)), 2U);
  EXPECT_EQ(cached(counting(0, 7)), 1U);
  EXPECT_EQ(cached(counting(1, 8)), 0U);
}

TEST_F(BlockTreeTest, StoresASharedPrefixOnce) {
  Tokens a = counting(0, 12);
  Tokens b = a;
  b.back() = 99;
  keep_and_leave(a);
  keep_and_leave(b);
  EXPECT_EQ(tree_.blocks(), 4U);
  EXPECT_EQ(next_cell_, 16U);
}

TEST_F(BlockTreeTest, NamespacesNeverMeet) {
  keep_and_leave(counting(0, 8), "alice");
  EXPECT_EQ(cached(counting(0, 8), "alice"), 2U);
  EXPECT_EQ(cached(counting(0, 8), "bob"), 0U);
  EXPECT_EQ(cached(counting(0, 8)), 0U);
  // Not even when the names collide.
  EXPECT_TRUE(tree_.match("bob", counting(0, 8), names_of("alice", counting(0, 8))).empty());
}

TEST_F(BlockTreeTest, AForgedCollisionIsAMiss) {
  keep_and_leave(counting(0, 8));
  const Tokens other = counting(50, 8);
  EXPECT_TRUE(tree_.match("", other, names_of("", counting(0, 8))).empty());
  const std::vector<CellId> cells(kBlock, 100);
  const auto inserted =
      tree_.insert("", BlockTree::kNone, names_of("", counting(0, 8))[0], std::span(other).first(kBlock), cells);
  EXPECT_EQ(inserted.outcome, BlockTree::Insertion::kCollision);
  EXPECT_EQ(inserted.block, BlockTree::kNone);
  EXPECT_EQ(cached(counting(0, 8)), 2U);
}

TEST_F(BlockTreeTest, EvictsLeavesInTheOrderOfLastUse) {
  const Tokens a = counting(0, 8);
  const Tokens b = counting(100, 4);
  keep_and_leave(a);
  keep_and_leave(b);
  const auto again = tree_.match("", a, names_of("", a));
  tree_.pin(again.back());
  tree_.unpin(again.back());
  ASSERT_TRUE(evict());  // b is the oldest now
  EXPECT_EQ(freed_, (std::vector<CellId>{8, 9, 10, 11}));
  ASSERT_TRUE(evict());  // then a's leaf
  EXPECT_EQ(freed_, (std::vector<CellId>{4, 5, 6, 7}));
  EXPECT_EQ(cached(a), 1U);
  ASSERT_TRUE(evict());
  EXPECT_FALSE(evict());
  EXPECT_EQ(tree_.blocks(), 0U);
  EXPECT_EQ(tree_.evicted(), 3U);
}

TEST_F(BlockTreeTest, KeepsWhatIsInUse) {
  const auto tail = keep(counting(0, 12));
  EXPECT_EQ(tree_.blocks_used(), 3U);
  EXPECT_FALSE(evict());
  tree_.unpin(tail);
  EXPECT_EQ(tree_.blocks_used(), 0U);
  EXPECT_TRUE(evict());
}

TEST_F(BlockTreeTest, ADuplicateIsNamedAndPinned) {
  const auto first = keep(counting(0, 8));
  const auto second = keep(counting(0, 8));
  EXPECT_EQ(first, second);
  EXPECT_EQ(tree_.users(first), 2U);
  tree_.unpin(first);
  EXPECT_FALSE(evict());
  tree_.unpin(second);
  EXPECT_TRUE(evict());
}

/// Events in words: `+hash<parent` or `+hash` for a first block, `-hash`, `clear`.
std::string story(const std::vector<KvEvent>& events) {
  std::string text;
  const auto say = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  const auto number = [](const EngineHash& hash) { return std::to_string(std::get<std::uint64_t>(hash)); };
  for (const KvEvent& event : events) {
    if (const auto* stored = std::get_if<BlockStored>(&event)) {
      std::string word = "+";
      for (const EngineHash& hash : stored->block_hashes) word += (word.size() > 1 ? "," : "") + number(hash);
      say(word + (stored->parent ? "<" + number(*stored->parent) : ""));
    } else if (const auto* removed = std::get_if<BlockRemoved>(&event)) {
      std::string word = "-";
      for (const EngineHash& hash : removed->block_hashes) word += (word.size() > 1 ? "," : "") + number(hash);
      say(word);
    } else {
      say("clear");
    }
  }
  return text;
}

/// A tree whose blocks are named by hand.
class BlockTreeEvents : public testing::Test {
 protected:
  void SetUp() override { tree_.record_events(); }
  /// Pinned from the root to it; `unpin` it once for each time.
  BlockTree::Ref add(BlockTree::Ref parent, std::uint64_t name, std::string_view space = "") {
    tree_.pin(parent);
    const Tokens tokens(kBlock, static_cast<TokenId>(name));
    const std::vector<CellId> cells(kBlock, 0);
    return tree_.insert(space, parent, SequenceHash{name}, tokens, cells).block;
  }
  bool evict() {
    std::vector<CellId> freed;
    return tree_.evict(freed);
  }
  std::string told() { return story(tree_.take_events()); }

  BlockTree tree_{8, kBlock};
};

TEST_F(BlockTreeEvents, TellInOrderWhatIsStoredAndRemoved) {
  const auto one = add(BlockTree::kNone, 1);
  const auto two = add(one, 2);
  const auto three = add(two, 3);
  EXPECT_EQ(told(), "+1,2,3");
  EXPECT_EQ(told(), "");
  const auto four = add(two, 4);
  const auto five = add(BlockTree::kNone, 5);
  add(three, 6);
  EXPECT_EQ(told(), "+4<2 +5 +6<3");
  add(BlockTree::kNone, 5);  // a duplicate stores nothing
  tree_.unpin(five);
  tree_.unpin(five);
  tree_.unpin(four);
  EXPECT_TRUE(evict());
  add(two, 7);
  EXPECT_TRUE(evict());
  EXPECT_EQ(told(), "-5 +7<2 -4");
}

TEST_F(BlockTreeEvents, CarryTokensAndTheSaltOfTheFirstBlock) {
  const auto one = add(BlockTree::kNone, 1, "tenant");
  add(one, 2, "tenant");
  const auto events = tree_.take_events();
  ASSERT_EQ(events.size(), 1U);
  const auto& stored = std::get<BlockStored>(events[0]);
  EXPECT_EQ(stored.token_ids, (Tokens{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(stored.block_size, kBlock);
  ASSERT_TRUE(stored.extra_keys.has_value());
  EXPECT_EQ((*stored.extra_keys)[0], (std::vector<ExtraKey>{"tenant"}));
  EXPECT_EQ((*stored.extra_keys)[1], std::nullopt);
  EXPECT_EQ(tier_of(stored.place.medium), Tier::kDevice);
}

TEST_F(BlockTreeEvents, ClearedIsToldOnlyWhenNothingIsLeft) {
  const auto one = add(BlockTree::kNone, 1);
  const auto two = add(one, 2);
  const auto three = add(BlockTree::kNone, 3);
  tree_.unpin(three);
  told();
  std::vector<CellId> freed;
  tree_.evict_all(freed);
  EXPECT_EQ(told(), "-3");
  tree_.unpin(two);
  tree_.unpin(one);
  tree_.evict_all(freed);
  EXPECT_EQ(told(), "clear");
  EXPECT_EQ(freed.size(), 3 * kBlock);
  tree_.evict_all(freed);
  EXPECT_EQ(told(), "");
}

TEST_F(BlockTreeEvents, ASnapshotStoresEveryChain) {
  EXPECT_EQ(story(tree_.snapshot()), "clear");
  const auto one = add(BlockTree::kNone, 1);
  const auto two = add(one, 2);
  add(two, 3);
  add(two, 4);
  add(BlockTree::kNone, 5, "other");
  KvReplica followed;
  for (const auto& event : tree_.take_events()) EXPECT_TRUE(followed.apply(event));
  KvReplica shown;
  const auto snapshot = tree_.snapshot();
  EXPECT_EQ(snapshot.size(), 1U + 3U);  // cleared, a chain of three, a branch, another namespace's
  for (const auto& event : snapshot) EXPECT_TRUE(shown.apply(event));
  EXPECT_EQ(shown.blocks(), 5U);
  followed.for_each([&](const EngineHash& hash, const KvReplica::Block& block) {
    ASSERT_NE(shown.find(hash), nullptr);
    EXPECT_EQ(*shown.find(hash), block);
  });
}

TEST_F(BlockTreeTest, IsBounded) {
  keep_and_leave(counting(0, 32));
  const std::vector<CellId> cells(kBlock, 0);
  const Tokens more = counting(500, kBlock);
  EXPECT_EQ(tree_.insert("", BlockTree::kNone, names_of("", more)[0], more, cells).outcome,
            BlockTree::Insertion::kFull);
  ASSERT_TRUE(evict());
  EXPECT_EQ(tree_.insert("", BlockTree::kNone, names_of("", more)[0], more, cells).outcome,
            BlockTree::Insertion::kInserted);
}

// --- Against a model: a flat list of blocks, each with its whole prefix and the time of its last use. --------------

struct NaiveBlock {
  std::string space;
  Tokens prefix;  // all tokens up to and including this block
  CellId cell = 0;
  int users = 0;
  std::uint64_t used_at = 0;
};

class Naive {
 public:
  NaiveBlock* find(const std::string& space, const Tokens& prefix) {
    for (auto& block : blocks_) {
      if (block.space == space && block.prefix == prefix) return &block;
    }
    return nullptr;
  }
  std::size_t match(const std::string& space, const Tokens& tokens) {
    std::size_t count = 0;
    while ((count + 1) * kBlock <= tokens.size() && find(space, head(tokens, count + 1)) != nullptr) ++count;
    return count;
  }
  void add(const std::string& space, const Tokens& prefix, CellId cell) {
    blocks_.push_back({space, prefix, cell, 1, 0});
  }
  /// The time stamps fall from root to tail, so that a tail is older than its head.
  void unpin(const std::string& space, const Tokens& chain) {
    for (std::size_t count = chain.size() / kBlock; count > 0; --count) {
      NaiveBlock* block = find(space, head(chain, count));
      --block->users;
      if (block->users == 0) block->used_at = ++now_;
    }
  }
  void pin(const std::string& space, const Tokens& chain) {
    for (std::size_t count = 1; count <= chain.size() / kBlock; ++count) ++find(space, head(chain, count))->users;
  }
  std::optional<CellId> evict() {
    auto oldest = blocks_.end();
    for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
      if (each->users > 0 || has_child(*each)) continue;
      if (oldest == blocks_.end() || each->used_at < oldest->used_at) oldest = each;
    }
    if (oldest == blocks_.end()) return std::nullopt;
    const CellId cell = oldest->cell;
    blocks_.erase(oldest);
    return cell;
  }
  std::size_t size() const { return blocks_.size(); }
  std::size_t used() const {
    return static_cast<std::size_t>(std::ranges::count_if(blocks_, [](const auto& block) { return block.users > 0; }));
  }
  static Tokens head(const Tokens& tokens, std::size_t blocks) {
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(blocks * kBlock)};
  }

 private:
  bool has_child(const NaiveBlock& parent) const {
    return std::ranges::any_of(blocks_, [&](const auto& block) {
      return block.space == parent.space && block.prefix.size() == parent.prefix.size() + kBlock &&
             std::equal(parent.prefix.begin(), parent.prefix.end(), block.prefix.begin());
    });
  }
  std::deque<NaiveBlock> blocks_;
  std::uint64_t now_ = 0;
};

TEST(BlockTreeModel, AgreesWithANaiveOneOnRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    constexpr std::uint32_t kCapacity = 24;
    BlockTree tree(kCapacity, kBlock);
    Naive naive;
    struct User {
      std::string space;
      Tokens chain;
      BlockTree::Ref tail;
    };
    std::vector<User> users;
    CellId next_cell = 0;
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      if (rng.below(3) != 0 || users.empty()) {
        // A request: take what is cached, then add its other blocks as a running engine would.
        User user{rng.below(4) == 0 ? "other" : "", {}, BlockTree::kNone};
        const std::uint64_t blocks = 1 + rng.below(6);
        for (std::uint64_t i = 0; i < blocks; ++i) {
          const auto kind = static_cast<TokenId>(rng.below(2));
          user.chain.insert(user.chain.end(), kBlock, kind);
        }
        const auto names = names_of(user.space, user.chain);
        const auto chain = tree.match(user.space, user.chain, names);
        ASSERT_EQ(chain.size(), naive.match(user.space, user.chain));
        if (!chain.empty()) {
          user.tail = chain.back();
          tree.pin(user.tail);
          naive.pin(user.space, Naive::head(user.chain, chain.size()));
        }
        std::size_t reached = chain.size();
        for (; reached < names.size(); ++reached) {
          const auto tokens = std::span(user.chain).subspan(reached * kBlock, kBlock);
          const std::vector<CellId> cells(kBlock, next_cell);
          auto inserted = tree.insert(user.space, user.tail, names[reached], tokens, cells);
          if (inserted.outcome == BlockTree::Insertion::kFull) {
            std::vector<CellId> freed;
            const auto expected = naive.evict();
            ASSERT_EQ(tree.evict(freed), expected.has_value());
            if (!expected) break;
            ASSERT_EQ(freed, std::vector<CellId>(kBlock, *expected));
            inserted = tree.insert(user.space, user.tail, names[reached], tokens, cells);
          }
          ASSERT_EQ(inserted.outcome, BlockTree::Insertion::kInserted);
          naive.add(user.space, Naive::head(user.chain, reached + 1), next_cell++);
          user.tail = inserted.block;
        }
        user.chain.resize(reached * kBlock);
        if (reached > 0) users.push_back(std::move(user));
      } else if (rng.below(4) != 0) {
        const std::size_t who = rng.below(users.size());
        tree.unpin(users[who].tail);
        naive.unpin(users[who].space, users[who].chain);
        users.erase(users.begin() + static_cast<std::ptrdiff_t>(who));
      } else {
        std::vector<CellId> freed;
        const auto expected = naive.evict();
        ASSERT_EQ(tree.evict(freed), expected.has_value());
        if (expected) {
          ASSERT_EQ(freed, std::vector<CellId>(kBlock, *expected));
        }
      }
      tree.check();
      ASSERT_EQ(tree.blocks(), naive.size());
      ASSERT_EQ(tree.blocks_used(), naive.used());
    }
  }
}

}  // namespace
}  // namespace kvern::kv
