#include "engine/embedded/engine_bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "kv/block_hash.h"

namespace kvern::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// When each request got its first token and its end.
class Stopwatch final : public EventSink {
 public:
  struct Times {
    Clock::time_point first_token{};
    Clock::time_point end{};
    Tokens tokens;
    std::vector<Clock::time_point> arrivals;  // of outputs
    bool ended = false;
    std::optional<Error> error;
  };

  void on_events(std::vector<EngineEvent> events) override {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (const EngineEvent& event : events) {
      Times& times = times_[event.id];
      if (const auto* output = std::get_if<Output>(&event.body)) {
        if (times.tokens.empty()) times.first_token = now;
        times.tokens.insert(times.tokens.end(), output->tokens.begin(), output->tokens.end());
        times.arrivals.push_back(now);
      } else if (!std::holds_alternative<Accepted>(event.body)) {
        times.ended = true;
        times.end = now;
        if (const auto* failed = std::get_if<Failed>(&event.body)) times.error = failed->error;
      }
    }
    ended_.notify_all();
  }
  Times wait(RequestId id) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return times_[id].ended; });
    return times_[id];
  }
  std::vector<Clock::time_point> arrivals(RequestId id) {
    const std::lock_guard lock(mutex_);
    return times_[id].arrivals;
  }
  void wait_first_token(RequestId id) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return times_[id].ended || !times_[id].tokens.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<RequestId, Times> times_;
};

class Bench {
 public:
  Bench(EmbeddedEngine& engine, const EngineBenchOptions& options)
      : engine_(engine), options_(options), vocab_size_(engine.model().vocab_size) {}

  /// Prompts that share nothing with one another: spread over the vocabulary, past its special tokens.
  Tokens prompt(std::uint32_t count) {
    const std::uint32_t base = std::min(1000U, vocab_size_ / 2);
    Tokens tokens(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<TokenId>(base + (prompts_ * 7919U + i * 31U) % (vocab_size_ - base));
    }
    ++prompts_;
    return tokens;
  }
  Result<RequestId> submit(Tokens tokens, std::uint32_t max_tokens) {
    GenerateRequest request;
    request.id = RequestId{++ids_};
    request.prompt = std::move(tokens);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    const RequestId id = request.id;
    if (auto submitted = engine_.submit(std::move(request), watch_); !submitted) return submitted.error();
    return id;
  }
  Result<Stopwatch::Times> wait(RequestId id) {
    auto times = watch_->wait(id);
    if (times.error) return *times.error;
    return times;
  }
  Result<Stopwatch::Times> run(Tokens tokens, std::uint32_t max_tokens) {
    const auto id = submit(std::move(tokens), max_tokens);
    if (!id) return id.error();
    return wait(*id);
  }

  Result<EngineSpeeds> speeds() {
    EngineSpeeds speeds;
    std::vector<double> prefill;
    std::vector<double> decode;
    for (std::uint32_t i = 0; i < options_.single_runs; ++i) {
      const auto from = Clock::now();
      const auto one = run(prompt(options_.prefill_tokens), options_.decode_tokens + 1);
      if (!one) return one.error();
      prefill.push_back(options_.prefill_tokens * 1e3 / ms_between(from, one->first_token));
      decode.push_back(options_.decode_tokens * 1e3 / ms_between(one->first_token, one->end));
    }
    speeds.prefill = quantile(prefill, 0.5);
    speeds.decode = quantile(decode, 0.5);

    std::vector<RequestId> ids;
    const auto submitted = Clock::now();
    for (std::uint32_t i = 0; i < options_.streams; ++i) {
      const auto id = submit(prompt(options_.stream_tokens), options_.decode_tokens + 1);
      if (!id) return id.error();
      ids.push_back(*id);
    }
    // Tokens that come while all are there: from the last first one to the first end.
    std::vector<Stopwatch::Times> all;
    Clock::time_point all_started{};
    Clock::time_point one_ended = Clock::time_point::max();
    for (const RequestId id : ids) {
      auto times = wait(id);
      if (!times) return times.error();
      all_started = std::max(all_started, times->first_token);
      one_ended = std::min(one_ended, times->end);
      speeds.streams_ms = std::max(speeds.streams_ms, ms_between(submitted, times->end));
      all.push_back(std::move(*times));
    }
    std::uint64_t tokens = 0;
    for (const auto& times : all) {
      tokens += static_cast<std::uint64_t>(std::ranges::count_if(
          times.arrivals, [&](auto arrival) { return arrival > all_started && arrival <= one_ended; }));
    }
    speeds.decode_streams = static_cast<double>(tokens) * 1e3 / ms_between(all_started, one_ended);
    return speeds;
  }

  /// Fills three quarters of the pool with prefixes, and returns the share that is full.
  Result<double> park_prefixes() {
    for (;;) {
      engine_.wait_idle();
      const EngineStats stats = engine_.stats();
      const std::uint64_t wanted = std::uint64_t{stats.cells_total} * 3 / 4;
      if (stats.cells_used >= wanted) return static_cast<double>(stats.cells_used) / stats.cells_total;
      const auto left = static_cast<std::uint32_t>(std::max<std::uint64_t>(32, wanted - stats.cells_used + 16));
      const auto done = run(prompt(std::min(options_.parked_prefix_tokens, left)), 1);
      if (!done) return done.error();
    }
  }

  /// Long prompts arrive one after the other while others decode.
  Result<void> mixed(EngineBenchFigures& figures) {
    figures.budget_tokens = engine_.mixed_batch_tokens();
    // One step of the budget alone, as far into a prompt as those that will arrive.
    const Tokens cached = prompt(options_.mixed_prompt_tokens / kv::kBlockTokens * kv::kBlockTokens);
    if (const auto one = run(cached, 2); !one) return one.error();
    std::vector<double> budget;
    for (int i = 0; i < 15; ++i) {
      Tokens tokens = cached;
      const Tokens added = prompt(figures.budget_tokens);
      tokens.insert(tokens.end(), added.begin(), added.end());
      const auto from = Clock::now();
      const auto one = run(std::move(tokens), 1);
      if (!one) return one.error();
      budget.push_back(ms_between(from, one->first_token));
    }
    figures.budget_step_ms = quantile(budget, 0.5);
    figures.budget_step_max_ms = quantile(budget, 1);

    // Long enough to decode for as long as the prompts take, and ended then.
    std::vector<RequestId> decoding;
    for (std::uint32_t i = 0; i < options_.mixed_streams; ++i) {
      const auto id = submit(prompt(options_.stream_tokens), engine_.model().context_tokens - options_.stream_tokens);
      if (!id) return id.error();
      decoding.push_back(*id);
      watch_->wait_first_token(*id);
    }
    const auto from = Clock::now();
    for (std::uint32_t i = 0; i < options_.mixed_prompts; ++i) {
      const auto done = run(prompt(options_.mixed_prompt_tokens), 1);
      if (!done) return done.error();
    }
    const auto to = Clock::now();
    std::vector<double> gaps;
    for (const RequestId id : decoding) {
      engine_.cancel(id);
      const auto arrivals = watch_->arrivals(id);
      for (std::size_t i = 1; i < arrivals.size(); ++i) {
        if (arrivals[i - 1] >= from && arrivals[i] <= to) gaps.push_back(ms_between(arrivals[i - 1], arrivals[i]));
      }
    }
    engine_.wait_idle();
    if (gaps.empty()) return fail(ErrorCode::kInternal, "nothing was decoded beside the prompts");
    figures.stall_p50_ms = quantile(gaps, 0.5);
    figures.stall_p99_ms = quantile(gaps, 0.99);
    figures.stall_max_ms = quantile(gaps, 1);
    return {};
  }

  Result<void> two_turns(EngineBenchFigures& figures) {
    const std::uint64_t before = computed();
    Tokens history = prompt(options_.chat_tokens);
    auto from = Clock::now();
    const auto turn1 = run(history, 16);
    if (!turn1) return turn1.error();
    figures.turn1_ms = ms_between(from, turn1->first_token);
    figures.turn1_computed_tokens = computed() - before;
    history.insert(history.end(), turn1->tokens.begin(), turn1->tokens.end());
    const Tokens added = prompt(options_.turn_tokens);
    history.insert(history.end(), added.begin(), added.end());
    from = Clock::now();
    const auto turn2 = run(history, 16);
    if (!turn2) return turn2.error();
    figures.turn2_ms = ms_between(from, turn2->first_token);
    figures.turn2_computed_tokens = computed() - before - figures.turn1_computed_tokens;
    figures.turn2_cost_ratio =
        static_cast<double>(figures.turn2_computed_tokens) / static_cast<double>(figures.turn1_computed_tokens);
    return {};
  }

 private:
  static double quantile(std::vector<double>& values, double share) {
    std::ranges::sort(values);
    const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size()));
    return values[std::min(place, values.size() - 1)];
  }
  std::uint64_t computed() {
    engine_.wait_idle();
    return engine_.stats().computed_tokens;
  }

  EmbeddedEngine& engine_;
  const EngineBenchOptions& options_;
  const std::uint32_t vocab_size_;
  std::shared_ptr<Stopwatch> watch_ = std::make_shared<Stopwatch>();
  std::uint32_t prompts_ = 0;
  std::uint64_t ids_ = 0;
};

}  // namespace

Result<EngineBenchFigures> run_engine_bench(const EngineBenchOptions& options) {
  EngineBenchFigures figures;
  const auto start = Clock::now();
  auto engine = EmbeddedEngine::load(options.engine);
  if (!engine) return std::move(engine).error();
  figures.start_ms = ms_between(start, Clock::now());
  figures.cell_bytes = (*engine)->cell_bytes();
  figures.cells = (*engine)->stats().cells_total;
  Bench bench(**engine, options);

  const auto first = bench.run(bench.prompt(16), 1);
  if (!first) return first.error();
  figures.first_token_ms = ms_between(start, first->first_token);

  auto empty = bench.speeds();
  if (!empty) return empty.error();
  figures.empty = *empty;
  if (auto done = bench.two_turns(figures); !done) return done.error();
  if (auto done = bench.mixed(figures); !done) return done.error();
  const auto share = bench.park_prefixes();
  if (!share) return share.error();
  figures.parked_share = *share;
  auto parked = bench.speeds();
  if (!parked) return parked.error();
  figures.parked = *parked;
  return figures;
}

}  // namespace kvern::engine
