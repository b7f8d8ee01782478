#include "engine/embedded/embedded_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>

#include "base/check.h"
#include "engine/embedded/llama_backend.h"
#include "engine/embedded/scheduler.h"

namespace kvern::engine {
namespace {

using std::chrono::steady_clock;

// A step of the slowest sensible model (10 tokens a second, a full batch) is shorter than this.
constexpr std::chrono::seconds kStalledAfter{90};

/// Tells two requests apart that had the same id one after the other.
using Serial = std::uint64_t;

struct Submit {
  GenerateRequest request;
  std::shared_ptr<EventSink> sink;
  Serial serial = 0;
};
struct Cancel {
  RequestId id;
};
/// Empties the cache and answers whether nothing is left.
struct Clear {
  std::promise<bool> emptied;
};
using Command = std::variant<Submit, Cancel, Clear>;

/// The thread, and what crosses to it. Commands come under `mutex_`; scheduler and backend belong to the thread.
class Running final : public EmbeddedEngine {
 public:
  Running(const EmbeddedOptions& options, std::unique_ptr<LlamaBackend> backend, ModelInfo info)
      : model_(std::move(info)),
        warnings_(backend->warnings()),
        waiting_max_(std::max(1U, options.waiting_max)),
        sequences_(backend->sequences()),
        mixed_batch_tokens_(options.mixed_batch_tokens),
        reuses_blocks_(options.prefix_cache && backend->can_hold()),
        kv_events_(options.kv_events),
        backend_(std::move(backend)),
        scheduler_(SchedulerOptions{.context_tokens = backend_->context_tokens(),
                                    .cells = backend_->cells_total(),
                                    .sequences = backend_->sequences(),
                                    .batch_tokens = options.batch_tokens,
                                    .mixed_batch_tokens = options.mixed_batch_tokens,
                                    .waiting_max = waiting_max_ + backend_->sequences(),
                                    .block_tokens = kv::kBlockTokens,
                                    .reuse_blocks = reuses_blocks_,
                                    .record_kv_events = kv_events_ != nullptr,
                                    .parked_bytes_max = options.parked_bytes},
                   *backend_),
        stats_(scheduler_.stats()),
        progress_(steady_clock::now()),
        thread_([this] { run(); }) {}

  ~Running() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    backend_->stop();
    wake_.notify_all();
    thread_.join();
  }

  const ModelInfo& model() const override { return model_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  bool reuses_blocks() const override { return reuses_blocks_; }
  std::uint32_t trained_context_tokens() const override { return backend_->trained_tokens(); }
  std::uint64_t cell_bytes() const override { return backend_->cell_bytes(); }
  std::uint32_t mixed_batch_tokens() const override { return mixed_batch_tokens_; }

  Result<void> submit(GenerateRequest request, std::shared_ptr<EventSink> sink) override {
    KV_CHECK(sink != nullptr);
    if (auto fits = check(request); !fits) return fits;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return fail(ErrorCode::kUnavailable, "the engine is stopping");
      // One that can run at once does not wait: it takes no place of the queue.
      if (stats_.waiting + submits_queued_ >= waiting_max_ + (sequences_ - stats_.running)) {
        return fail(ErrorCode::kOverloaded, "too many requests are waiting for the engine");
      }
      if (!active_.try_emplace(request.id, serials_ + 1).second) {
        return fail(ErrorCode::kInternal, "a request with this id is running");
      }
      ++submits_queued_;
      commands_.emplace_back(Submit{std::move(request), std::move(sink), ++serials_});
    }
    wake_.notify_all();
    return {};
  }

  void cancel(RequestId id) override {
    {
      const std::lock_guard lock(mutex_);
      // Only ids that are there get a command, and each one: so cancels are bounded as submits are.
      if (active_.erase(id) == 0) return;
      commands_.emplace_back(Cancel{id});
    }
    wake_.notify_all();
  }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting += submits_queued_;
    return stats;
  }

  bool healthy() const override {
    const std::lock_guard lock(mutex_);
    return !stopping_ && (idle_ || steady_clock::now() - progress_ < kStalledAfter);
  }

  void wait_idle() override {
    std::unique_lock lock(mutex_);
    became_idle_.wait(lock, [this] { return idle_ && commands_.empty(); });
  }

  bool verify_empty_after_clearing() override {
    Clear clear;
    auto emptied = clear.emptied.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      commands_.emplace_back(std::move(clear));
    }
    wake_.notify_all();
    return emptied.get();
  }

 private:
  Result<void> check(const GenerateRequest& request) const {
    if (request.prompt.empty()) return invalid("prompt", "the prompt has no tokens");
    if (request.max_tokens == 0) return invalid("max_tokens", "max_tokens must be at least 1");
    const std::uint64_t whole = request.prompt.size() + std::uint64_t{request.max_tokens};
    if (whole > model_.context_tokens) {
      return fail(ErrorCode::kContextLength,
                  fmt::format("{} prompt tokens and {} answer tokens exceed the context of {}", request.prompt.size(),
                              request.max_tokens, model_.context_tokens));
    }
    const auto outside = [this](TokenId token) {
      return token < 0 || static_cast<std::uint32_t>(token) >= model_.vocab_size;
    };
    if (std::ranges::any_of(request.prompt, outside)) return invalid("prompt", "a token id is outside the vocabulary");
    if (std::ranges::any_of(request.sampling.logit_bias, [&](const auto& each) { return outside(each.first); })) {
      return invalid("logit_bias", "a token id is outside the vocabulary");
    }
    return {};
  }

  void run() {
    std::vector<Outgoing> out;
    for (;;) {
      std::deque<Command> commands;
      {
        std::unique_lock lock(mutex_);
        stats_ = scheduler_.stats();
        progress_ = steady_clock::now();
        if (commands_.empty() && scheduler_.idle() && !stopping_) {
          idle_ = true;
          became_idle_.notify_all();
          wake_.wait(lock, [this] { return stopping_ || !commands_.empty(); });
          progress_ = steady_clock::now();
        }
        idle_ = false;
        if (stopping_) break;
        commands.swap(commands_);
        submits_queued_ = 0;
        // Those just taken count as waiting until the next snapshot.
        for (const Command& command : commands) stats_.waiting += std::holds_alternative<Submit>(command) ? 1 : 0;
      }
      for (Command& command : commands) take(std::move(command), out);
      scheduler_.admit(out);
      {
        // A step takes a while: what it runs is seen as running from its start.
        const std::lock_guard lock(mutex_);
        stats_ = scheduler_.stats();
      }
      const bool goes_on = scheduler_.step(out);
      tell_kv_events();
      if (!goes_on) {
        deliver(out);
        break;
      }
      deliver(out);
    }
    shut_down(out);
  }

  void take(Command command, std::vector<Outgoing>& out) {
    if (const auto* cancelled = std::get_if<Cancel>(&command)) {
      scheduler_.cancel(cancelled->id);
      taken_.erase(cancelled->id);
      return;
    }
    if (auto* clear = std::get_if<Clear>(&command)) {
      scheduler_.clear_cache();
      scheduler_.check();
      clear->emptied.set_value(scheduler_.idle() && backend_->cells_used().value_or(0) == 0);
      return;
    }
    auto& submitted = std::get<Submit>(command);
    const RequestId id = submitted.request.id;
    auto sink = submitted.sink;
    taken_[id] = submitted.serial;
    if (auto queued = scheduler_.submit(std::move(submitted.request), sink); !queued) {
      out.push_back(Outgoing{std::move(sink), EngineEvent{id, Failed{queued.error()}}});
    }
  }

  void tell_kv_events() {
    if (kv_events_ == nullptr) return;
    auto events = scheduler_.take_kv_events();
    if (events.empty() || kv_events_->on_kv_events(std::move(events))) return;
    kv_events_->on_kv_snapshot(scheduler_.take_kv_snapshot());
  }

  /// One call per sink with all it gets, in the order made.
  void deliver(std::vector<Outgoing>& out) {
    if (out.empty()) return;
    std::vector<std::pair<std::shared_ptr<EventSink>, std::vector<EngineEvent>>> batches;
    std::unordered_map<EventSink*, std::size_t> places;
    {
      const std::lock_guard lock(mutex_);
      for (Outgoing& each : out) {
        const bool last =
            std::holds_alternative<Finished>(each.event.body) || std::holds_alternative<Failed>(each.event.body);
        if (last) ended(each.event.id);
        const auto [place, fresh] = places.try_emplace(each.sink.get(), batches.size());
        if (fresh) batches.emplace_back(std::move(each.sink), std::vector<EngineEvent>{});
        batches[place->second].second.push_back(std::move(each.event));
      }
      stats_ = scheduler_.stats();
    }
    out.clear();
    for (auto& [sink, events] : batches) sink->on_events(std::move(events));
  }

  /// Forgets an id, unless it is another request's by now: cancelled and submitted again during the last step of this
  /// one. `mutex_` is held.
  void ended(RequestId id) {
    const auto taken = taken_.find(id);
    if (taken == taken_.end()) return;
    const auto found = active_.find(id);
    if (found != active_.end() && found->second == taken->second) active_.erase(found);
    taken_.erase(taken);
  }

  void shut_down(std::vector<Outgoing>& out) {
    const Error gone = fail(ErrorCode::kUnavailable, "the engine is stopping");
    std::deque<Command> commands;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      commands.swap(commands_);
      submits_queued_ = 0;
    }
    for (Command& command : commands) take(std::move(command), out);
    scheduler_.fail_all(gone, out);
    deliver(out);
    const std::lock_guard lock(mutex_);
    stats_ = scheduler_.stats();
    idle_ = true;
    became_idle_.notify_all();
  }

  const ModelInfo model_;
  const std::vector<std::string> warnings_;
  const std::uint32_t waiting_max_;
  const std::uint32_t sequences_;  // requests that run at once
  const std::uint32_t mixed_batch_tokens_;
  const bool reuses_blocks_;
  const std::shared_ptr<kv::KvEventSink> kv_events_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable became_idle_;
  std::deque<Command> commands_;                  // guarded by mutex_, bounded by waiting_max_ and active_
  std::unordered_map<RequestId, Serial> active_;  // submitted, neither ended nor cancelled; guarded by mutex_
  Serial serials_ = 0;                            // guarded by mutex_
  std::uint32_t submits_queued_ = 0;              // guarded by mutex_
  bool stopping_ = false;                         // guarded by mutex_
  bool idle_ = false;                             // guarded by mutex_

  std::unique_ptr<LlamaBackend> backend_;
  Scheduler scheduler_;                          // the thread's
  std::unordered_map<RequestId, Serial> taken_;  // what the scheduler has, by id; the thread's
  EngineStats stats_;                            // guarded by mutex_
  steady_clock::time_point progress_;            // guarded by mutex_
  std::thread thread_;                           // last: it starts when all else is there
};

}  // namespace

Result<std::unique_ptr<EmbeddedEngine>> EmbeddedEngine::load(const EmbeddedOptions& options) {
  EmbeddedOptions settled = options;
  settled.running_max = std::clamp(options.running_max, 1U, 256U);
  const std::uint32_t batch_tokens = options.gpu_layers != 0 ? 512 : 128;
  if (settled.batch_tokens == 0) settled.batch_tokens = batch_tokens;
  settled.batch_tokens = std::clamp(settled.batch_tokens, std::max(settled.running_max, 32U), 8192U);
  if (settled.mixed_batch_tokens == 0) settled.mixed_batch_tokens = batch_tokens / 2;
  settled.mixed_batch_tokens = std::clamp(settled.mixed_batch_tokens, 1U, settled.batch_tokens);
  auto backend = LlamaBackend::load(LlamaOptions{.model_path = settled.model_path,
                                                 .context_tokens = settled.ctx,
                                                 .cells = settled.kv_cache_tokens,
                                                 .threads = settled.threads,
                                                 .gpu_layers = settled.gpu_layers,
                                                 .batch_tokens = settled.batch_tokens,
                                                 .sequences = settled.running_max,
                                                 .on_log = settled.on_log});
  if (!backend) return std::move(backend).error();
  ModelInfo info{
      .name = settled.name, .context_tokens = (*backend)->context_tokens(), .vocab_size = (*backend)->vocab_size()};
  if (info.name.empty()) info.name = std::filesystem::path(settled.model_path).stem().string();
  return std::unique_ptr<EmbeddedEngine>(std::make_unique<Running>(settled, std::move(*backend), std::move(info)));
}

}  // namespace kvern::engine
