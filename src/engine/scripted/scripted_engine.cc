#include "engine/scripted/scripted_engine.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <unordered_map>

#include "base/clock.h"

namespace kvern::engine {
namespace {

/// Tokens of one stream that leave in one turn when no time lies between them, so that streams take turns.
constexpr std::size_t kBurstTokens = 64;
constexpr std::size_t kUsualBatch = 32;
constexpr auto kSlack = std::chrono::milliseconds(1);

/// When the token after one at `at` leaves. Streams of one pace go in step, as in an engine that batches them: at
/// multiples of it, the nearest to `at + itl`.
TimePoint next_step(TimePoint at, std::chrono::milliseconds itl) {
  if (itl.count() == 0) return at;
  const TimePoint nearest = at + itl + itl / 2;
  return nearest - nearest.time_since_epoch() % itl;
}

struct Generation {
  RequestId id;
  std::shared_ptr<EventSink> sink;
  const ScriptLine* line = nullptr;
  Tokens tokens;         // the answer, one event each, where the line has no chunks
  std::size_t size = 0;  // of the answer, in events
  std::size_t next = 0;
  std::optional<std::uint32_t> logprobs;  // asked for
  std::uint32_t prompt_tokens = 0;
  bool accepted = false;
  bool cut = false;         // max_tokens reached before the script's end
  bool stop_token = false;  // a stop token id stands at the end
  bool cancelled = false;   // goes when it is due
};

struct Due {
  TimePoint at;
  std::uint64_t order;
  Generation* generation;
  bool operator>(const Due& other) const { return at != other.at ? at > other.at : order > other.order; }
};

class ScriptedEngine final : public Engine {
 public:
  ScriptedEngine(ScriptedOptions options, std::vector<ScriptLine> lines)
      : options_(std::move(options)), script_(std::move(lines)), thread_([this] { run(); }) {}

  ~ScriptedEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  const ModelInfo& model() const override { return options_.model; }

  Result<void> submit(GenerateRequest request, std::shared_ptr<EventSink> sink) override {
    const std::lock_guard lock(mutex_);
    if (active_.size() >= options_.active_max || stopping_) return fail(ErrorCode::kOverloaded, "the engine is full");
    if (active_.contains(request.id)) return fail(ErrorCode::kInternal, "a request with this id is running");
    const ScriptLine* line = script_.take(request.prompt_text);
    if (line != nullptr && line->finish == ScriptFinish::kOverloaded) {
      return fail(ErrorCode::kOverloaded, "the engine is full");
    }
    auto generation = std::make_unique<Generation>();
    generation->id = request.id;
    generation->sink = std::move(sink);
    generation->prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    if (line == nullptr) {
      exhausted_.push_back(std::move(generation));
    } else {
      fill(*generation, *line, request);
      stats_.prompt_tokens += generation->prompt_tokens;
      stats_.computed_tokens += generation->prompt_tokens;
      due_.push({std::chrono::steady_clock::now() + line->ttft, order_++, generation.get()});
      active_.emplace(request.id, std::move(generation));
    }
    wake_.notify_one();
    return {};
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    const auto found = active_.find(id);
    if (found == active_.end()) return;
    auto generation = std::move(found->second);
    active_.erase(found);
    generation->cancelled = true;
    generation->tokens = Tokens();
    auto* const key = generation.get();
    cancelled_.emplace(key, std::move(generation));
  }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = static_cast<std::uint32_t>(active_.size());
    return stats;
  }

  bool healthy() const override { return true; }

 private:
  using Batches = std::map<EventSink*, std::pair<std::shared_ptr<EventSink>, std::vector<EngineEvent>>>;

  void fill(Generation& generation, const ScriptLine& line, const GenerateRequest& request) const {
    generation.line = &line;
    generation.logprobs = request.logprobs;
    if (line.chunks) {
      generation.size = line.chunks->size();
    } else {
      generation.tokens = line.token_ids ? *line.token_ids : options_.encode(*line.text);
      const auto& stops = request.stop_token_ids;
      for (std::size_t i = request.min_tokens; i < generation.tokens.size() && !generation.stop_token; ++i) {
        if (std::ranges::find(stops, generation.tokens[i]) == stops.end()) continue;
        generation.stop_token = true;
        generation.tokens.resize(i);
      }
      generation.size = generation.tokens.size();
    }
    if (generation.size > request.max_tokens) {
      generation.size = request.max_tokens;
      generation.cut = true;
    }
  }

  static Output output_of(const Generation& generation) {
    const ScriptLine& line = *generation.line;
    Output output;
    if (line.chunks) {
      output.text = (*line.chunks)[generation.next];
      return output;
    }
    output.tokens.push_back(generation.tokens[generation.next]);
    if (generation.logprobs && !line.logprobs.empty()) {
      output.logprobs.push_back(logprob_of(line, generation.next, *generation.logprobs));
    }
    return output;
  }

  static TokenLogprob logprob_of(const ScriptLine& line, std::size_t place, std::uint32_t alternatives) {
    TokenLogprob logprob = line.logprobs[std::min(place, line.logprobs.size() - 1)];
    if (logprob.top.size() > alternatives) logprob.top.resize(alternatives);
    return logprob;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      Batches batches;
      for (const auto& generation : exhausted_) {
        add(batches, *generation, Failed{fail(ErrorCode::kEngine, "script exhausted")});
      }
      exhausted_.clear();
      const TimePoint now = std::chrono::steady_clock::now();
      std::vector<Due> again;
      while (!due_.empty() && due_.top().at <= now + kSlack) {
        const Due due = due_.top();
        due_.pop();
        Generation& generation = *due.generation;
        if (generation.cancelled) {
          cancelled_.erase(due.generation);
        } else if (advance(batches, generation)) {
          active_.erase(generation.id);
        } else {
          again.push_back({std::max(next_step(due.at, generation.line->itl), now), order_++, due.generation});
        }
      }
      for (const auto& due : again) due_.push(due);
      ++stats_.steps;
      if (!batches.empty()) {
        lock.unlock();
        for (auto& [key, batch] : batches) batch.first->on_events(std::move(batch.second));
        lock.lock();
        continue;
      }
      if (!exhausted_.empty()) continue;
      if (due_.empty()) {
        wake_.wait(lock, [this] { return stopping_ || !due_.empty() || !exhausted_.empty(); });
      } else {
        wake_.wait_until(lock, due_.top().at);
      }
    }
    Batches batches;
    for (const auto& [id, generation] : active_) {
      add(batches, *generation, Failed{fail(ErrorCode::kUnavailable, "the engine has stopped")});
    }
    active_.clear();
    lock.unlock();
    for (auto& [key, batch] : batches) batch.first->on_events(std::move(batch.second));
  }

  template <typename Body>
  static void add(Batches& batches, const Generation& generation, Body body) {
    auto& batch = batches[generation.sink.get()];
    if (!batch.first) {
      batch.first = generation.sink;
      batch.second.reserve(kUsualBatch);
    }
    batch.second.push_back({generation.id, std::move(body)});
  }

  /// Emits what is due of one generation; true when it is over.
  bool advance(Batches& batches, Generation& generation) {
    if (!generation.accepted) {
      generation.accepted = true;
      add(batches, generation, Accepted{generation.prompt_tokens, 0});
    }
    std::size_t burst = generation.line->itl.count() == 0 ? kBurstTokens : 1;
    for (; burst > 0 && generation.next < generation.size; --burst) {
      add(batches, generation, output_of(generation));
      ++generation.next;
      ++stats_.generated_tokens;
    }
    if (generation.next < generation.size) return false;
    if (generation.cut) {
      add(batches, generation, Finished{StopCause::kLength, static_cast<std::uint32_t>(generation.next)});
      return true;
    }
    switch (generation.line->finish) {
      case ScriptFinish::kStop:
        add(batches, generation,
            Finished{generation.stop_token ? StopCause::kStopToken : StopCause::kEos,
                     static_cast<std::uint32_t>(generation.next)});
        break;
      case ScriptFinish::kLength:
        add(batches, generation, Finished{StopCause::kLength, static_cast<std::uint32_t>(generation.next)});
        break;
      case ScriptFinish::kError:
        add(batches, generation, Failed{fail(ErrorCode::kEngine, "the engine failed on this request")});
        break;
      case ScriptFinish::kDie:
        add(batches, generation, Failed{fail(ErrorCode::kUnavailable, "the engine is gone")});
        break;
      case ScriptFinish::kOverloaded: break;  // refused by submit()
    }
    return true;
  }

  const ScriptedOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Script script_;
  std::unordered_map<RequestId, std::unique_ptr<Generation>> active_;
  std::unordered_map<Generation*, std::unique_ptr<Generation>> cancelled_;  // due_ still knows them
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<std::unique_ptr<Generation>> exhausted_;
  std::uint64_t order_ = 0;
  EngineStats stats_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

std::unique_ptr<Engine> make_scripted_engine(ScriptedOptions options, std::vector<ScriptLine> script) {
  return std::make_unique<ScriptedEngine>(std::move(options), std::move(script));
}

}  // namespace kvern::engine
