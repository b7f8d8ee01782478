// The events of the scheduler's cache, followed from the start through the wire's bytes, are its true set of blocks
// after every step of a random workload.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>

#include "base/rng.h"
#include "engine/embedded/embedded_engine.h"
#include "engine/embedded/engine_harness.h"
#include "engine/embedded/fake_backend.h"
#include "engine/embedded/scheduler.h"
#include "engine/events/codec.h"
#include "kv/kv_replica.h"

namespace kvern::engine {
namespace {

class NullSink final : public EventSink {
 public:
  void on_events(std::vector<EngineEvent>) override {}
};

using Blocks = std::map<std::uint64_t, kv::KvReplica::Block>;

Blocks blocks_of(const kv::KvReplica& replica) {
  Blocks blocks;
  replica.for_each([&](const kv::EngineHash& hash, const kv::KvReplica::Block& block) {
    blocks.emplace(std::get<std::uint64_t>(hash), block);
  });
  return blocks;
}

/// What a subscriber makes of these events.
void follow(kv::KvReplica& replica, std::vector<kv::KvEvent> events, events::WireStyle style) {
  std::string payload;
  events::encode({.timestamp_s = 1, .events = std::move(events), .data_parallel_rank = 0}, style, payload);
  auto decoded = events::decode(payload);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  for (const auto& event : decoded->batch.events) {
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) {
      // Exactly in order: a parent is there before its child, and nothing is stored twice.
      ASSERT_TRUE(!stored->parent || replica.find(*stored->parent) != nullptr);
      for (const auto& hash : stored->block_hashes) ASSERT_EQ(replica.find(hash), nullptr);
    } else if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) {
      for (const auto& hash : removed->block_hashes) ASSERT_NE(replica.find(hash), nullptr);
    }
    ASSERT_TRUE(replica.apply(event));
  }
}

/// Every block is named by the tokens and the namespace on its way from the root: nothing else could be behind it.
void expect_true_names(const Blocks& blocks, std::uint32_t block_tokens) {
  for (const auto& [hash, block] : blocks) {
    std::vector<const kv::KvReplica::Block*> chain{&block};
    while (chain.back()->parent) chain.push_back(&blocks.at(std::get<std::uint64_t>(*chain.back()->parent)));
    std::ranges::reverse(chain);
    std::string name_space;
    if (chain.front()->extra_keys) name_space = std::get<std::string>(chain.front()->extra_keys->at(0));
    Tokens tokens;
    for (const auto* each : chain) tokens.insert(tokens.end(), each->tokens.begin(), each->tokens.end());
    std::vector<kv::SequenceHash> names;
    kv::SequenceHasher({.lora = {}, .name_space = name_space}, block_tokens).extend(tokens, names);
    ASSERT_EQ(names.size(), chain.size());
    ASSERT_EQ(names.back().value, hash);
  }
}

Tokens counting(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Workload {
  explicit Workload(std::uint64_t seed) : rng(seed) {
    options = {.context_tokens = 96,
               .cells = static_cast<std::uint32_t>(96 + rng.below(300)),
               .sequences = static_cast<std::uint32_t>(1 + rng.below(8)),
               .batch_tokens = 32,
               .mixed_batch_tokens = 16,
               .waiting_max = 20,
               .block_tokens = static_cast<std::uint32_t>(rng.below(2) == 0 ? 16 : 4),
               .record_kv_events = true};
    backend = std::make_unique<FakeBackend>(options.cells);
    scheduler = std::make_unique<Scheduler>(options, *backend);
  }

  /// Requests that share beginnings, cancels, now and then an operator who clears the cache.
  void round() {
    if (rng.below(2) == 0) {
      GenerateRequest made;
      made.id = RequestId{next_id++};
      made.prompt = counting(static_cast<TokenId>(1000 * rng.below(3)), 1 + rng.below(60));
      const Tokens own = counting(static_cast<TokenId>(20000 + rng.below(4) * 100), rng.below(12));
      made.prompt.insert(made.prompt.end(), own.begin(), own.end());
      made.max_tokens = static_cast<std::uint32_t>(1 + rng.below(20));
      made.priority = static_cast<std::int32_t>(rng.below(3));
      if (rng.below(4) == 0) made.cache_namespace = "tenant-1";
      static_cast<void>(scheduler->submit(std::move(made), sink));
    }
    if (rng.below(8) == 0) scheduler->cancel(RequestId{1 + rng.below(next_id)});
    if (rng.below(40) == 0) scheduler->clear_cache();
    std::vector<Outgoing> out;
    ASSERT_TRUE(scheduler->step(out));
  }

  Rng rng;
  SchedulerOptions options;
  std::unique_ptr<FakeBackend> backend;
  std::unique_ptr<Scheduler> scheduler;
  std::shared_ptr<EventSink> sink = std::make_shared<NullSink>();
  std::uint64_t next_id = 1;
};

TEST(KvEvents, ReplayedFromTheStartTheyAreTheTrueBlocksAtEveryStep) {
  std::uint64_t stored = 0;
  std::uint64_t removed = 0;
  std::uint64_t cleared = 0;
  std::uint64_t salted = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Workload work(seed);
    kv::KvReplica replica;
    const auto style = seed % 2 == 0 ? events::WireStyle::kVllmMaps : events::WireStyle::kVllmTuples;
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      work.round();
      auto events = work.scheduler->take_kv_events();
      for (const auto& event : events) {
        stored += std::holds_alternative<kv::BlockStored>(event) ? 1 : 0;
        removed += std::holds_alternative<kv::BlockRemoved>(event) ? 1 : 0;
        cleared += std::holds_alternative<kv::AllBlocksCleared>(event) ? 1 : 0;
      }
      // A listener that had no room gets a snapshot in place of what it lost.
      if (!events.empty() && work.rng.below(20) == 0) {
        follow(replica, work.scheduler->take_kv_snapshot(), style);
      } else {
        follow(replica, std::move(events), style);
      }
      if (HasFatalFailure()) return;
      const Blocks blocks = blocks_of(replica);
      ASSERT_EQ(blocks.size(), work.scheduler->stats().cache_blocks);
      expect_true_names(blocks, work.options.block_tokens);
      kv::KvReplica truth;
      follow(truth, work.scheduler->take_kv_snapshot(), events::WireStyle::kSglangMaps);
      ASSERT_EQ(blocks, blocks_of(truth));
      if (HasFatalFailure()) return;
      salted += static_cast<std::uint64_t>(
          std::ranges::count_if(blocks, [](const auto& each) { return each.second.extra_keys.has_value(); }));
    }
  }
  // The workload shows everything there is to see.
  EXPECT_GT(stored, 1000U);
  EXPECT_GT(removed, 500U);
  EXPECT_GT(cleared, 3U);
  EXPECT_GT(salted, 100U);
}

TEST(KvEvents, NothingIsRecordedWhenNobodyListens) {
  Workload work(3);
  work.options.record_kv_events = false;
  work.scheduler = std::make_unique<Scheduler>(work.options, *work.backend);
  for (int step = 0; step < 50; ++step) {
    work.round();
    ASSERT_TRUE(work.scheduler->take_kv_events().empty());
  }
  EXPECT_GT(work.scheduler->stats().cache_blocks, 0U);
}

/// Follows an engine; has no room for every other step.
class Listener final : public kv::KvEventSink {
 public:
  bool on_kv_events(std::vector<kv::KvEvent> events) override {
    const std::lock_guard lock(mutex_);
    if (++steps_ % 2 == 0) return false;
    for (const auto& event : events) EXPECT_TRUE(replica_.apply(event));
    return true;
  }
  void on_kv_snapshot(std::vector<kv::KvEvent> events) override {
    const std::lock_guard lock(mutex_);
    ++snapshots_;
    for (const auto& event : events) EXPECT_TRUE(replica_.apply(event));
  }
  std::size_t blocks() {
    const std::lock_guard lock(mutex_);
    return replica_.blocks();
  }
  int snapshots() {
    const std::lock_guard lock(mutex_);
    return snapshots_;
  }

 private:
  std::mutex mutex_;
  kv::KvReplica replica_;
  int steps_ = 0;
  int snapshots_ = 0;
};

std::string default_model() {
  for (const auto& entry : std::filesystem::directory_iterator(KVERN_CACHE_DIR "/models")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("SmolLM2-135M-Instruct") && name.ends_with(".gguf")) return entry.path().string();
  }
  return {};
}

TEST(KvEvents, TheEngineTellsThemBeforeTheStepsTokens) {
  const auto listener = std::make_shared<Listener>();
  EmbeddedOptions options;
  options.model_path = default_model();
  options.ctx = 512;
  options.kv_cache_tokens = 1024;
  options.kv_events = listener;
  auto engine = EmbeddedEngine::load(options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const auto answers = std::make_shared<harness::Collector>();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    GenerateRequest made;
    made.id = RequestId{id};
    made.prompt = counting(static_cast<TokenId>(1000 * id), 200);
    made.max_tokens = 20;
    made.ignore_eos = true;
    ASSERT_TRUE((*engine)->submit(std::move(made), answers).ok());
    ASSERT_TRUE(answers->wait(RequestId{id}).finished.has_value());
    EXPECT_EQ(listener->blocks(), (*engine)->stats().cache_blocks);
  }
  EXPECT_GT(listener->blocks(), 30U);
  EXPECT_GT(listener->snapshots(), 3);
  EXPECT_TRUE((*engine)->verify_empty_after_clearing());
  (*engine)->wait_idle();
  EXPECT_EQ(listener->blocks(), 0U);
}

}  // namespace
}  // namespace kvern::engine
