#include "engine/embedded/engine_bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

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
    bool started = false;
    bool ended = false;
    std::optional<Error> error;
  };

  void on_events(std::vector<EngineEvent> events) override {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (const EngineEvent& event : events) {
      Times& times = times_[event.id];
      if (const auto* output = std::get_if<Output>(&event.body)) {
        if (!std::exchange(times.started, true)) times.first_token = now;
        times.tokens.insert(times.tokens.end(), output->tokens.begin(), output->tokens.end());
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

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<RequestId, Times> times_;
};

class Bench {
 public:
  Bench(EmbeddedEngine& engine, std::uint32_t vocab_size) : engine_(engine), vocab_size_(vocab_size) {}

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
  Result<Stopwatch::Times> run(Tokens tokens, std::uint32_t max_tokens) {
    const auto id = submit(std::move(tokens), max_tokens);
    if (!id) return id.error();
    auto times = watch_->wait(*id);
    if (times.error) return *times.error;
    return times;
  }
  Stopwatch::Times wait(RequestId id) { return watch_->wait(id); }

 private:
  EmbeddedEngine& engine_;
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
  const auto loaded = Clock::now();
  figures.start_ms = ms_between(start, loaded);
  figures.cell_bytes = (*engine)->cell_bytes();
  figures.cells = (*engine)->stats().cells_total;
  Bench bench(**engine, (*engine)->model().vocab_size);

  const auto first = bench.run(bench.prompt(16), 1);
  if (!first) return first.error();
  figures.first_token_ms = ms_between(start, first->first_token);

  auto from = Clock::now();
  const auto one = bench.run(bench.prompt(options.prefill_tokens), options.decode_tokens + 1);
  if (!one) return one.error();
  figures.prefill_tokens_per_s = options.prefill_tokens * 1e3 / ms_between(from, one->first_token);
  figures.decode_tokens_per_s = options.decode_tokens * 1e3 / ms_between(one->first_token, one->end);

  // Eight short prompts in one batch, then eight tokens a step: the time from the last first token to the first end.
  std::vector<RequestId> ids;
  for (int i = 0; i < 8; ++i) {
    const auto id = bench.submit(bench.prompt(8), options.decode_tokens + 1);
    if (!id) return id.error();
    ids.push_back(*id);
  }
  Clock::time_point all_started{};
  Clock::time_point all_ended{};
  std::uint64_t tokens = 0;
  for (const RequestId id : ids) {
    const auto times = bench.wait(id);
    if (times.error) return *times.error;
    all_started = std::max(all_started, times.first_token);
    all_ended = std::max(all_ended, times.end);
    tokens += options.decode_tokens;
  }
  figures.decode_tokens_per_s_8 = static_cast<double>(tokens) * 1e3 / ms_between(all_started, all_ended);

  const auto computed = [&] {
    (*engine)->wait_idle();
    return (*engine)->stats().computed_tokens;
  };
  const std::uint64_t before = computed();
  Tokens history = bench.prompt(options.chat_tokens);
  from = Clock::now();
  const auto turn1 = bench.run(history, 16);
  if (!turn1) return turn1.error();
  figures.turn1_ms = ms_between(from, turn1->first_token);
  figures.turn1_computed_tokens = computed() - before;
  history.insert(history.end(), turn1->tokens.begin(), turn1->tokens.end());
  const Tokens added = bench.prompt(options.turn_tokens);
  history.insert(history.end(), added.begin(), added.end());
  from = Clock::now();
  const auto turn2 = bench.run(history, 16);
  if (!turn2) return turn2.error();
  figures.turn2_ms = ms_between(from, turn2->first_token);
  figures.turn2_computed_tokens = computed() - before - figures.turn1_computed_tokens;
  figures.turn2_cost_ratio =
      static_cast<double>(figures.turn2_computed_tokens) / static_cast<double>(figures.turn1_computed_tokens);
  return figures;
}

}  // namespace kvern::engine
