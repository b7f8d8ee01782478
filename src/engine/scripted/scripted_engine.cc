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

struct Generation {
  RequestId id;
  std::shared_ptr<EventSink> sink;
  std::vector<Output> outputs;  // one event each
  std::size_t next = 0;
  std::uint32_t prompt_tokens = 0;
  bool accepted = false;
  bool cut = false;         // max_tokens reached before the script's end
  bool stop_token = false;  // a stop token id stands at the end
  ScriptFinish finish = ScriptFinish::kStop;
  std::chrono::milliseconds itl{0};
  bool cancelled = false;
};
using GenerationPtr = std::shared_ptr<Generation>;

struct Due {
  TimePoint at;
  std::uint64_t order;
  GenerationPtr generation;
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
    const auto generation = std::make_shared<Generation>();
    generation->id = request.id;
    generation->sink = std::move(sink);
    generation->prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    const ScriptLine* line = script_.take(request.prompt_text);
    std::chrono::milliseconds ttft{0};
    if (line == nullptr) {
      exhausted_.push_back(generation);
    } else {
      ttft = line->ttft;
      fill(*generation, *line, request);
      stats_.prompt_tokens += generation->prompt_tokens;
      stats_.computed_tokens += generation->prompt_tokens;
      due_.push({std::chrono::steady_clock::now() + ttft, order_++, generation});
      active_.emplace(request.id, generation);
    }
    wake_.notify_one();
    return {};
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    const auto found = active_.find(id);
    if (found == active_.end()) return;
    found->second->cancelled = true;  // it may wait in due_ for a while: what it holds goes now
    found->second->outputs.clear();
    active_.erase(found);
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
    generation.finish = line.finish;
    generation.itl = line.itl;
    if (line.chunks) {
      for (const auto& chunk : *line.chunks) generation.outputs.push_back({{}, chunk, {}});
    } else {
      for (const TokenId token : line.token_ids ? *line.token_ids : options_.encode(*line.text)) {
        const auto& stops = request.stop_token_ids;
        if (generation.outputs.size() >= request.min_tokens && std::ranges::find(stops, token) != stops.end()) {
          generation.stop_token = true;
          break;
        }
        generation.outputs.push_back({{token}, {}, {}});
        if (request.logprobs && !line.logprobs.empty())
          generation.outputs.back().logprobs.push_back(
              logprob_of(line, generation.outputs.size() - 1, *request.logprobs));
      }
    }
    if (generation.outputs.size() > request.max_tokens) {
      generation.outputs.resize(request.max_tokens);
      generation.cut = true;
    }
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
        if (generation.cancelled) continue;
        if (advance(batches, generation)) {
          active_.erase(generation.id);
        } else {
          again.push_back({std::max(due.at + generation.itl, now), order_++, due.generation});
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
    std::size_t burst = generation.itl.count() == 0 ? kBurstTokens : 1;
    for (; burst > 0 && generation.next < generation.outputs.size(); --burst) {
      add(batches, generation, std::move(generation.outputs[generation.next++]));
      ++stats_.generated_tokens;
    }
    if (generation.next < generation.outputs.size()) return false;
    if (generation.cut) {
      add(batches, generation, Finished{StopCause::kLength, static_cast<std::uint32_t>(generation.next)});
      return true;
    }
    switch (generation.finish) {
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
    }
    return true;
  }

  const ScriptedOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Script script_;
  std::unordered_map<RequestId, GenerationPtr> active_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<GenerationPtr> exhausted_;
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
