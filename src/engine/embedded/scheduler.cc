#include "engine/embedded/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::engine {
namespace {

// A prefill beside decodes always gets at least this many tokens, however many decode.
constexpr std::uint32_t kPrefillTokensMin = 16;
// A preempted request comes back when it can go on for this many tokens: coming back costs a restore or a prefill, so
// it should not be preempted again at once.
constexpr std::uint32_t kResumeTokens = 64;

/// Who yields first: the least urgent, of these the youngest.
bool yields_before(const Generation* a, const Generation* b) {
  if (a->urgency() != b->urgency()) return a->urgency() < b->urgency();
  return a->arrival > b->arrival;
}

void push(std::vector<Outgoing>& out, const Generation& generation, decltype(EngineEvent::body) body) {
  out.push_back(Outgoing{generation.sink, EngineEvent{generation.request.id, std::move(body)}});
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Backend& backend)
    : options_(options), backend_(backend), tree_(options.cells / options.block_tokens, options.block_tokens) {
  KV_CHECK(options_.context_tokens > 0 && options_.context_tokens <= options_.cells);
  KV_CHECK(options_.sequences > 0 && options_.sequences <= options_.batch_tokens);
  if (options_.record_kv_events) tree_.record_events();
  for (std::uint32_t i = options_.sequences; i > 0; --i) free_sequences_.push_back(static_cast<SequenceId>(i - 1));
}

Scheduler::~Scheduler() = default;

Result<void> Scheduler::submit(GenerateRequest request, std::shared_ptr<EventSink> sink) {
  if (request.prompt.empty()) return invalid("prompt", "the prompt has no tokens");
  if (request.max_tokens == 0) return invalid("max_tokens", "max_tokens must be at least 1");
  if (request.prompt.size() + std::uint64_t{request.max_tokens} > options_.context_tokens) {
    return fail(ErrorCode::kContextLength, "the prompt and the answer exceed the model's context");
  }
  if (all_.contains(request.id)) return fail(ErrorCode::kInternal, "a request with this id is running");
  if (waiting_.size() >= options_.waiting_max) {
    return fail(ErrorCode::kOverloaded, "too many requests are waiting for the engine");
  }
  auto generation = std::make_unique<Generation>();
  generation->prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  generation->tokens = std::move(request.prompt);
  generation->request = std::move(request);
  generation->sink = std::move(sink);
  generation->arrival = arrivals_++;
  if (options_.reuse_blocks) {
    generation->hasher =
        kv::SequenceHasher({.lora = {}, .name_space = generation->request.cache_namespace}, options_.block_tokens);
    generation->hasher.extend(generation->tokens, generation->names);
  } else {
    generation->caching = false;
  }
  waiting_.insert(generation.get());
  const RequestId id = generation->request.id;
  all_.emplace(id, std::move(generation));
  return {};
}

bool Scheduler::cancel(RequestId id) {
  const auto found = all_.find(id);
  if (found == all_.end()) return false;
  end(*found->second);
  return true;
}

void Scheduler::fail_all(const Error& error, std::vector<Outgoing>& out) {
  while (!all_.empty()) {
    Generation& generation = *all_.begin()->second;
    push(out, generation, Failed{error});
    end(generation);
  }
}

bool Scheduler::step(std::vector<Outgoing>& out) {
  admit(out);
  if (running_.empty()) return true;
  plan();
  std::vector<Generation*> parts;
  for (Generation* generation : running_) {
    if (generation->chunk > 0) parts.push_back(generation);
  }
  ++counts_.steps;
  return compute(parts, out);
}

// --- Admission ----------------------------------------------------------------------------------------------------

std::uint32_t Scheduler::blocks_attachable(const Generation& generation) const {
  // The last token is always computed: its logits are what the answer starts from.
  return static_cast<std::uint32_t>((generation.tokens.size() - 1) / options_.block_tokens);
}

/// Who still computes the blocks it waits for, or null.
Generation* Scheduler::awaited(const Generation& waiter) const {
  if (waiter.awaited_blocks == 0) return nullptr;
  const auto found = all_.find(waiter.awaited);
  if (found == all_.end()) return nullptr;
  Generation& other = *found->second;
  return other.sequence >= 0 && other.caching && other.blocks < waiter.awaited_blocks ? &other : nullptr;
}

bool Scheduler::awaits_blocks(Generation& waiter, std::uint32_t cached_blocks) {
  const std::uint32_t attachable = blocks_attachable(waiter);
  if (cached_blocks >= attachable) return false;
  const auto found = under_way_.find(waiter.names[cached_blocks]);
  if (found == under_way_.end()) return false;
  Generation& other = *found->second;
  if (other.request.cache_namespace != waiter.request.cache_namespace) return false;
  // How far both agree, in tokens themselves: a colliding name must not hold up anybody.
  const std::size_t limit = std::min<std::size_t>(other.announced, attachable) * options_.block_tokens;
  const auto differ = std::mismatch(waiter.tokens.begin(), waiter.tokens.begin() + static_cast<std::ptrdiff_t>(limit),
                                    other.tokens.begin());
  const auto common = static_cast<std::uint32_t>((differ.first - waiter.tokens.begin()) / options_.block_tokens);
  if (common <= cached_blocks) return false;
  waiter.awaited = other.request.id;
  waiter.awaited_blocks = common;
  // Who computes for a more urgent request is as urgent.
  other.boost = std::max(other.boost, waiter.urgency());
  return true;
}

/// Who computes for a more urgent request is as urgent, as long as that one waits.
void Scheduler::refresh_boosts() {
  for (Generation* generation : running_) generation->boost = generation->request.priority;
  for (const Generation* waiter : waiting_) {
    if (Generation* other = awaited(*waiter)) other->boost = std::max(other->boost, waiter->request.priority);
  }
}

/// What running prefills will still take, and a block each to grow into: admitting beyond that would only preempt.
std::uint64_t Scheduler::cells_promised() const {
  std::uint64_t promised = 0;
  for (const Generation* generation : running_) promised += generation->pending() + options_.block_tokens;
  return promised;
}

std::uint64_t Scheduler::cells_wanted(const Generation& generation, Chain chain) const {
  const std::uint32_t growth = generation.accepted
                                   ? std::max(options_.block_tokens, std::min(kResumeTokens, generation.left()))
                                   : options_.block_tokens;
  return generation.tokens.size() - chain.size() * options_.block_tokens + growth;
}

std::uint64_t Scheduler::cells_available(Chain chain) const {
  const auto idle = std::ranges::count_if(chain, [&](auto block) { return tree_.users(block) == 0; });
  return cells_free() +
         std::uint64_t{options_.block_tokens} * (tree_.blocks_evictable() - static_cast<std::uint64_t>(idle));
}

bool Scheduler::fits(const Generation& generation, Chain chain) const {
  if (free_sequences_.empty()) return false;
  return running_.empty() || cells_promised() + cells_wanted(generation, chain) <= cells_available(chain);
}

bool Scheduler::anybody_yields_to(const Generation& generation) const {
  return std::ranges::any_of(running_,
                             [&](const auto* other) { return other->urgency() < generation.request.priority; });
}

/// Preempts as many less urgent ones as it takes for `generation` to fit; nobody, if all of them were not enough.
bool Scheduler::make_way(const Generation& generation, Chain chain) {
  std::vector<Generation*> yielding;
  for (Generation* other : running_) {
    if (other->urgency() < generation.request.priority) yielding.push_back(other);
  }
  std::ranges::sort(yielding, yields_before);

  const std::uint64_t wanted = cells_wanted(generation, chain);
  std::uint64_t promised = cells_promised();
  std::uint64_t available = cells_available(chain);
  // A block is there for the taking when all its users yield and it is not one that `generation` is to use.
  std::unordered_map<kv::BlockTree::Ref, std::uint32_t> released;
  for (const auto block : chain) released.emplace(block, 0);
  for (std::size_t count = 0; count < yielding.size();) {
    const Generation& victim = *yielding[count++];
    promised -= victim.pending() + options_.block_tokens;
    available += victim.computed - victim.blocks * options_.block_tokens;
    for (auto block = victim.tail; block != kv::BlockTree::kNone; block = tree_.parent(block)) {
      const auto [place, fresh] = released.try_emplace(block, 0);
      if (!fresh && place->second == 0) continue;  // of the chain
      if (++place->second == tree_.users(block)) available += options_.block_tokens;
    }
    if (count < running_.size() && promised + wanted > available) continue;
    yielding.resize(count);
    for (Generation* each : yielding) preempt(*each);
    return true;
  }
  return false;
}

void Scheduler::admit(std::vector<Outgoing>& out) {
  refresh_boosts();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Generation& generation = **next;
    ++next;
    if (free_sequences_.empty() && !anybody_yields_to(generation)) return;
    if (awaited(generation) != nullptr) continue;
    generation.awaited_blocks = 0;

    std::vector<kv::BlockTree::Ref> chain;
    if (options_.reuse_blocks) {
      const std::uint32_t attachable = blocks_attachable(generation);
      chain =
          tree_.match(generation.request.cache_namespace, generation.tokens,
                      std::span(generation.names).first(std::min<std::size_t>(attachable, generation.names.size())));
      if (awaits_blocks(generation, static_cast<std::uint32_t>(chain.size()))) continue;
    }
    // The first in line holds the line, so that a large request is not passed by small ones for ever.
    if (!fits(generation, chain) && !make_way(generation, chain)) return;
    waiting_.erase(&generation);
    start(generation, chain, out);
  }
}

void Scheduler::start(Generation& generation, Chain chain, std::vector<Outgoing>& out) {
  generation.sequence = free_sequences_.back();
  free_sequences_.pop_back();
  running_.push_back(&generation);
  generation.boost = generation.request.priority;
  generation.chunk = 0;
  generation.blocks = static_cast<std::uint32_t>(chain.size());
  generation.computed = generation.blocks * options_.block_tokens;
  if (!chain.empty()) {
    generation.tail = chain.back();
    tree_.pin(generation.tail);
    for (const auto block : chain) backend_.attach(generation.sequence, tree_.cells(block));
  }
  unpark(generation);
  announce(generation);
  const auto size = static_cast<std::uint32_t>(generation.tokens.size());
  if (generation.accepted) {
    generation.prefill_end = size - 1;  // the last one was drawn but never run
    return;
  }
  generation.prefill_end = size;
  generation.accepted = true;
  generation.sampler = backend_.make_sampler(generation.request, generation.tokens);
  counts_.prompt_tokens += size;
  counts_.cached_tokens += generation.computed;
  push(out, generation,
       Accepted{.prompt_tokens = size,
                .cached_tokens = options_.reuse_blocks ? std::optional(generation.computed) : std::nullopt,
                .worker = {}});
}

void Scheduler::announce(Generation& generation) {
  if (!generation.caching) return;
  generation.announced = static_cast<std::uint32_t>(generation.names.size());
  for (std::uint32_t i = generation.blocks; i < generation.announced; ++i) {
    under_way_.try_emplace(generation.names[i], &generation);
  }
}

void Scheduler::withdraw(Generation& generation) {
  bool orphaned = false;
  for (std::uint32_t i = generation.blocks; i < generation.announced; ++i) {
    const auto found = under_way_.find(generation.names[i]);
    if (found == under_way_.end() || found->second != &generation) continue;
    under_way_.erase(found);
    orphaned = true;
  }
  generation.announced = 0;
  if (!orphaned) return;
  // Others may be computing the same blocks: those who waited can wait for them instead.
  for (Generation* other : running_) {
    for (std::uint32_t i = other->blocks; i < other->announced; ++i) under_way_.try_emplace(other->names[i], other);
  }
}

// --- The batch ----------------------------------------------------------------------------------------------------

std::uint32_t Scheduler::cells_free() const {
  return options_.cells - tree_.blocks() * options_.block_tokens - private_cells_;
}

bool Scheduler::evict_block() {
  scratch_.clear();
  if (!tree_.evict(scratch_)) return false;
  backend_.unhold(scratch_);
  return true;
}

void Scheduler::plan() {
  std::uint32_t tokens = 0;
  for (;;) {
    std::uint32_t decodes = 0;
    for (Generation* generation : running_) {
      generation->chunk = generation->pending() == 1 ? 1 : 0;
      decodes += generation->chunk;
    }
    const std::uint32_t room = cells_free() + tree_.blocks_evictable() * options_.block_tokens;
    if (decodes <= room) {
      std::uint32_t budget = options_.batch_tokens;
      if (decodes > 0) {
        budget = std::max(options_.mixed_batch_tokens, decodes + kPrefillTokensMin) - decodes;
        budget = std::min(budget, options_.batch_tokens - decodes);
      }
      share_out(std::min(budget, room - decodes));
      tokens = 0;
      for (const Generation* generation : running_) tokens += generation->chunk;
      if (tokens > 0) break;
    }
    preempt_one();
  }
  while (cells_free() < tokens) KV_CHECK(evict_block());
}

void Scheduler::share_out(std::uint32_t budget) {
  std::vector<Generation*> prefills;
  for (Generation* generation : running_) {
    if (generation->pending() > 1) prefills.push_back(generation);
  }
  if (prefills.empty()) return;
  std::ranges::sort(prefills, [](const Generation* a, const Generation* b) {
    return std::pair(-std::int64_t{a->urgency()}, a->arrival) < std::pair(-std::int64_t{b->urgency()}, b->arrival);
  });
  const auto give = [&budget](Generation& generation, std::uint32_t tokens) {
    const std::uint32_t given = std::min({tokens, generation.pending() - generation.chunk, budget});
    generation.chunk += given;
    budget -= given;
  };
  Generation* shortest = prefills.front();
  for (Generation* generation : prefills) {
    if (generation->urgency() != prefills.front()->urgency()) break;
    if (generation->pending() < shortest->pending()) shortest = generation;
  }
  if (shortest != prefills.front()) give(*shortest, budget / 2);
  for (Generation* generation : prefills) give(*generation, budget);
}

void Scheduler::preempt_one() {
  // A request alone always has room: all other cells are free or evictable, and it is no longer than the pool.
  KV_CHECK(running_.size() > 1);
  preempt(**std::ranges::min_element(running_, yields_before));
}

void Scheduler::preempt(Generation& victim) {
  park(victim);
  release(victim);
  if (options_.reuse_blocks) victim.hasher.extend(victim.tokens, victim.names);
  waiting_.insert(&victim);
  ++counts_.preemptions;
}

void Scheduler::park(Generation& victim) {
  const std::uint32_t from = victim.blocks * options_.block_tokens;
  if (options_.parked_bytes_max == 0 || victim.computed == from) return;
  Parked parked{.from = from, .to = victim.computed, .state = {}};
  if (!backend_.save(victim.sequence, static_cast<std::int32_t>(from), options_.parked_bytes_max - parked_bytes_,
                     parked.state)) {
    return;
  }
  parked_bytes_ += parked.state.size();
  victim.parked = std::move(parked);
}

/// Takes back what was parked, if its cached blocks reach exactly to where that begins.
void Scheduler::unpark(Generation& generation) {
  if (!generation.parked) return;
  const Parked& parked = *generation.parked;
  const std::uint32_t cells = parked.to - parked.from;
  if (parked.from == generation.computed) {
    while (cells_free() < cells) KV_CHECK(evict_block());
    if (backend_.restore(generation.sequence, parked.state)) {
      generation.computed = parked.to;
      private_cells_ += cells;
    }
  }
  drop_parked(generation);
}

void Scheduler::drop_parked(Generation& generation) {
  if (!generation.parked) return;
  parked_bytes_ -= generation.parked->state.size();
  generation.parked.reset();
}

bool Scheduler::compute(std::span<Generation* const> parts, std::vector<Outgoing>& out) {
  batch_.clear();
  for (const Generation* generation : parts) {
    for (std::uint32_t i = 0; i < generation->chunk; ++i) {
      const std::uint32_t position = generation->computed + i;
      batch_.push_back(BatchToken{.token = generation->tokens[position],
                                  .position = static_cast<std::int32_t>(position),
                                  .sequence = generation->sequence,
                                  .sampled = position + 1 == generation->tokens.size()});
    }
  }
  const DecodeStatus status = backend_.decode(batch_);
  if (status == DecodeStatus::kOk) {
    std::uint32_t index = 0;
    for (Generation* generation : parts) {
      index += generation->chunk;
      settle(*generation, index - 1, out);
    }
    return true;
  }
  // Back to the state before; then each alone, so that only those at fault fail.
  for (Generation* generation : parts) {
    if (backend_.remove(generation->sequence, static_cast<std::int32_t>(generation->computed), -1) &&
        (status == DecodeStatus::kAborted || parts.size() > 1)) {
      continue;
    }
    push(out, *generation, Failed{fail(ErrorCode::kEngine, "the engine failed on this request")});
    generation->chunk = 0;
    // A memory that cannot forget a part forgets the whole sequence in end().
    end(*generation);
    if (parts.size() == 1) return true;
  }
  if (status == DecodeStatus::kAborted) return false;
  const std::vector<Generation*> still_running = running_;
  for (Generation* generation : still_running) {
    if (generation->chunk == 0) continue;
    Generation* const alone[] = {generation};
    if (!compute(alone, out)) return false;
  }
  return true;
}

void Scheduler::settle(Generation& generation, std::uint32_t batch_index, std::vector<Outgoing>& out) {
  const std::uint32_t from = generation.computed;
  generation.computed += generation.chunk;
  private_cells_ += generation.chunk;
  generation.chunk = 0;
  counts_.computed_tokens +=
      std::min(generation.computed, generation.prefill_end) - std::min(from, generation.prefill_end);
  keep_blocks(generation);
  if (generation.computed == generation.tokens.size()) take_token(generation, batch_index, out);
}

void Scheduler::keep_blocks(Generation& generation) {
  while (generation.caching) {
    const std::uint32_t from = generation.blocks * options_.block_tokens;
    const std::uint32_t to = from + options_.block_tokens;
    if (generation.computed < to) return;
    if (generation.names.size() <= generation.blocks) generation.hasher.extend(generation.tokens, generation.names);
    const kv::SequenceHash name = generation.names[generation.blocks];

    std::vector<kv::CellId> cells;
    backend_.cells(generation.sequence, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), cells);
    KV_CHECK(cells.size() == options_.block_tokens);
    const auto tokens = std::span(generation.tokens).subspan(from, options_.block_tokens);
    auto inserted = tree_.insert(generation.request.cache_namespace, generation.tail, name, tokens, cells);
    if (inserted.outcome == kv::BlockTree::Insertion::kFull && evict_block()) {
      inserted = tree_.insert(generation.request.cache_namespace, generation.tail, name, tokens, cells);
    }
    switch (inserted.outcome) {
      case kv::BlockTree::Insertion::kInserted: backend_.hold(cells); break;
      case kv::BlockTree::Insertion::kDuplicate:
        // Somebody else kept this block meanwhile: use theirs, so that it is stored once.
        backend_.remove(generation.sequence, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to));
        backend_.attach(generation.sequence, tree_.cells(inserted.block));
        break;
      case kv::BlockTree::Insertion::kCollision:
      case kv::BlockTree::Insertion::kFull:
        withdraw(generation);
        generation.caching = false;
        return;
    }
    const auto announced = under_way_.find(name);
    if (announced != under_way_.end() && announced->second == &generation) under_way_.erase(announced);
    generation.tail = inserted.block;
    ++generation.blocks;
    private_cells_ -= options_.block_tokens;
  }
}

void Scheduler::take_token(Generation& generation, std::uint32_t batch_index, std::vector<Outgoing>& out) {
  const GenerateRequest& request = generation.request;
  const bool may_stop = generation.generated >= request.min_tokens;
  Drawn drawn = generation.sampler->sample(batch_index, may_stop);
  const TokenId token = drawn.token;
  ++generation.generated;
  ++counts_.generated_tokens;
  std::optional<StopCause> stopped;
  if (may_stop && std::ranges::find(request.stop_token_ids, token) != request.stop_token_ids.end()) {
    stopped = StopCause::kStopToken;
  } else if (may_stop && !request.ignore_eos && backend_.ends_generation(token)) {
    stopped = StopCause::kEos;
  } else {
    Output output{.tokens = {token}, .text = {}, .logprobs = {}};
    if (drawn.logprob) output.logprobs.push_back(std::move(*drawn.logprob));
    push(out, generation, std::move(output));
#ifdef KVERN_CANARY_DOUBLED_TOKEN
    if (generation.prefill_end > generation.prompt_tokens) push(out, generation, Output{.tokens = {token}, .text = {}});
#endif
    if (generation.generated >= request.max_tokens) stopped = StopCause::kLength;
  }
  if (!stopped) {
    generation.tokens.push_back(token);
    return;
  }
  push(out, generation, Finished{.cause = *stopped, .completion_tokens = generation.generated});
  end(generation);
}

// --- Endings ------------------------------------------------------------------------------------------------------

void Scheduler::release(Generation& generation) {
  if (generation.sequence < 0) return;
  withdraw(generation);
  backend_.remove(generation.sequence, 0, -1);
  private_cells_ -= generation.computed - generation.blocks * options_.block_tokens;
#ifdef KVERN_CANARY_PINNED_BLOCKS
  if (generation.pending() > 1) generation.tail = kv::BlockTree::kNone;
#endif
  if (generation.tail != kv::BlockTree::kNone) tree_.unpin(generation.tail);
  generation.tail = kv::BlockTree::kNone;
  generation.blocks = 0;
  generation.computed = 0;
  generation.chunk = 0;
  generation.caching = options_.reuse_blocks;
  free_sequences_.push_back(generation.sequence);
  generation.sequence = -1;
  std::erase(running_, &generation);
}

void Scheduler::end(Generation& generation) {
  release(generation);
  drop_parked(generation);
  waiting_.erase(&generation);
  const RequestId id = generation.request.id;
  all_.erase(id);
}

void Scheduler::clear_cache() {
  scratch_.clear();
  tree_.evict_all(scratch_);
  backend_.unhold(scratch_);
}

std::vector<kv::KvEvent> Scheduler::take_kv_snapshot() {
  tree_.take_events();
  return tree_.snapshot();
}

EngineStats Scheduler::stats() const {
  EngineStats stats = counts_;
  stats.running = static_cast<std::uint32_t>(running_.size());
  stats.waiting = static_cast<std::uint32_t>(waiting_.size());
  stats.cache_blocks = tree_.blocks();
  stats.cache_blocks_used = tree_.blocks_used();
  stats.cells_total = options_.cells;
  stats.cells_used = options_.cells - cells_free();
  stats.sequences_used = static_cast<std::uint32_t>(running_.size());
  stats.evicted_blocks = tree_.evicted();
  return stats;
}

void Scheduler::check() const {
  tree_.check();
  KV_CHECK(running_.size() + waiting_.size() == all_.size());
  KV_CHECK(running_.size() + free_sequences_.size() == options_.sequences);
  std::uint32_t private_cells = 0;
  for (const Generation* generation : running_) {
    KV_CHECK(generation->sequence >= 0);
    private_cells += generation->computed - generation->blocks * options_.block_tokens;
  }
  KV_CHECK(private_cells == private_cells_);
  std::size_t parked_bytes = 0;
  for (const Generation* generation : waiting_) {
    if (generation->parked) parked_bytes += generation->parked->state.size();
  }
  KV_CHECK(parked_bytes == parked_bytes_ && parked_bytes_ <= options_.parked_bytes_max);
  for (const auto& [name, generation] : under_way_) KV_CHECK(generation->sequence >= 0);
  KV_CHECK(tree_.blocks() * options_.block_tokens + private_cells_ <= options_.cells);
  if (running_.empty()) KV_CHECK(under_way_.empty() && tree_.blocks_used() == 0);
  if (const auto used = backend_.cells_used()) KV_CHECK(*used == options_.cells - cells_free());
}

}  // namespace kvern::engine
