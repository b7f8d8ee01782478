// What the embedded engine does next: who waits, who runs, which tokens make the next batch, which blocks are kept. A
// plain state machine against a Backend: no thread, clock or lock, so it runs in tests and simulation as in production.
//
// Promises
// - A step computes at most one batch. While somebody decodes, decodes come first and prefills share what is left of
//   `mixed_batch_tokens`; alone they get `batch_tokens`. Half of it goes to the oldest prefill, half to the shortest,
//   so a long prompt neither stalls short ones nor starves.
// - Exactly one Finished or Failed per request, unless cancelled; a cancelled one has freed everything when cancel
//   returns.
// - Cells are counted exactly. Room comes from LRU eviction of blocks nobody uses, then from preemption of the least
//   urgent request, of these the youngest: when the cells run out, and when a waiting request of higher priority would
//   have to wait for a sequence or for room (then only if that is enough for it). The last one running always fits, so
//   a request of at most the context's length finishes.
// - A preempted request goes back to its place in the queue with what it generated. Its blocks stay as cache; what is
// in
//   no block is parked in host memory while `parked_bytes_max` allows, and computed again otherwise. It comes back only
//   with room to go on for a while.
// - A waiting request whose next block is being computed by a running one waits for it, while others pass; the running
//   one is then as urgent as those who wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/embedded/backend.h"
#include "engine/embedded/generation.h"
#include "engine/engine.h"
#include "kv/block_tree.h"

namespace kvern::engine {

struct SchedulerOptions {
  std::uint32_t context_tokens = 0;  // longest prompt plus answer; <= cells
  std::uint32_t cells = 0;
  std::uint32_t sequences = 64;  // requests running at once; <= batch_tokens
  std::uint32_t batch_tokens = 512;
  std::uint32_t mixed_batch_tokens = 128;
  std::uint32_t waiting_max = 1024;
  std::uint32_t block_tokens = kv::kBlockTokens;
  bool reuse_blocks = true;  // needs a backend that can hold cells
  bool record_kv_events = false;
  std::size_t parked_bytes_max = 0;  // of preempted requests' state in host memory; 0: always compute again
};

/// An event and who gets it.
struct Outgoing {
  std::shared_ptr<EventSink> sink;
  EngineEvent event;
};

class Scheduler {
 public:
  /// `backend` outlives the scheduler.
  Scheduler(const SchedulerOptions& options, Backend& backend);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// kOverloaded at the bound; kContextLength or kInvalidRequest for what can never run. No event follows an error.
  Result<void> submit(GenerateRequest request, std::shared_ptr<EventSink> sink);
  /// False when there is no such request. On return nothing of it is left and no event of it will be made.
  bool cancel(RequestId id);
  /// Starts what can start; step() does it too. For a caller that looks at stats() before a long step.
  void admit(std::vector<Outgoing>& out);
  /// One batch. Appends its events in order. False: told to stop; nothing of this batch counts.
  bool step(std::vector<Outgoing>& out);
  /// Ends everything there is with `error`.
  void fail_all(const Error& error, std::vector<Outgoing>& out);

  bool idle() const { return all_.empty(); }
  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  EngineStats stats() const;
  /// What happened to cached blocks since the last call, in order. With record_kv_events call it after each step.
  std::vector<kv::KvEvent> take_kv_events() { return tree_.take_events(); }
  /// The same as a whole: all cleared, then every block there is. Takes what was not taken yet.
  std::vector<kv::KvEvent> take_kv_snapshot();
  /// Host memory that preempted requests take now.
  std::size_t parked_bytes() const { return parked_bytes_; }
  /// Drops every block nobody uses. For tests and operators.
  void clear_cache();
  /// Checks the books against tree and backend (KV_CHECK). O(blocks + running).
  void check() const;

 private:
  /// Higher priority first, then by arrival.
  struct Sooner {
    bool operator()(const Generation* a, const Generation* b) const {
      if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
      return a->arrival < b->arrival;
    }
  };

  using Chain = std::span<const kv::BlockTree::Ref>;  // cached blocks from the root on

  Generation* awaited(const Generation& waiter) const;
  bool awaits_blocks(Generation& waiter, std::uint32_t cached_blocks);
  void refresh_boosts();
  std::uint64_t cells_promised() const;
  std::uint64_t cells_wanted(const Generation& generation, Chain chain) const;
  std::uint64_t cells_available(Chain chain) const;
  bool fits(const Generation& generation, Chain chain) const;
  bool anybody_yields_to(const Generation& generation) const;
  bool make_way(const Generation& generation, Chain chain);
  void start(Generation& generation, Chain chain, std::vector<Outgoing>& out);
  void plan();
  void share_out(std::uint32_t budget);
  void preempt_one();
  void preempt(Generation& victim);
  void park(Generation& victim);
  void unpark(Generation& generation);
  void drop_parked(Generation& generation);
  bool compute(std::span<Generation* const> parts, std::vector<Outgoing>& out);
  void settle(Generation& generation, std::uint32_t batch_index, std::vector<Outgoing>& out);
  void keep_blocks(Generation& generation);
  void take_token(Generation& generation, std::uint32_t batch_index, std::vector<Outgoing>& out);
  void announce(Generation& generation);
  void withdraw(Generation& generation);
  /// Takes it out of batch, cells and tree; its complete blocks stay as cache.
  void release(Generation& generation);
  void end(Generation& generation);
  bool evict_block();
  std::uint32_t cells_free() const;
  std::uint32_t blocks_attachable(const Generation& generation) const;

  const SchedulerOptions options_;
  Backend& backend_;
  kv::BlockTree tree_;
  std::unordered_map<RequestId, std::unique_ptr<Generation>> all_;
  std::set<Generation*, Sooner> waiting_;
  std::vector<Generation*> running_;
  std::vector<SequenceId> free_sequences_;
  /// Names of prompt blocks that a running request is going to compute. The first to announce a name has it.
  std::unordered_map<kv::SequenceHash, Generation*> under_way_;
  std::uint64_t arrivals_ = 0;
  std::uint32_t private_cells_ = 0;  // cells of running requests outside the tree
  std::size_t parked_bytes_ = 0;
  EngineStats counts_;  // only its running totals are kept here
  std::vector<BatchToken> batch_;
  std::vector<kv::CellId> scratch_;
};

}  // namespace kvern::engine
