#include "sim/sim_worker.h"

#include <utility>

#include "base/check.h"
#include "sim/step_time.h"

namespace kvern::sim {
namespace {

// The books are walked every so many steps: at each step it would be most of a run's time.
constexpr std::uint64_t kStepsPerCheck = 16;

/// The scheduler wants a sink for each request; here its events leave by their id.
class NoSink final : public engine::EventSink {
 public:
  void on_events(std::vector<engine::EngineEvent>) override {}
};

}  // namespace

/// What a crash loses.
struct SimWorker::Process {
  explicit Process(engine::SchedulerOptions options)
      : backend(options.cells, options.sequences), scheduler(recording(options), backend) {}

  static engine::SchedulerOptions recording(engine::SchedulerOptions options) {
    options.record_kv_events = true;
    return options;
  }

  SimBackend backend;
  engine::Scheduler scheduler;
  kv::KvReplica follower;
  bool events_contradict = false;
  std::shared_ptr<engine::EventSink> sink = std::make_shared<NoSink>();
  std::vector<Command> commands;
  bool stepping = false;
};

SimWorker::SimWorker(World& world, std::string name, const engine::SchedulerOptions& options, Emit emit)
    : world_(world),
      name_(std::move(name)),
      options_(options),
      emit_(std::move(emit)),
      process_(std::make_shared<Process>(options)) {}

SimWorker::~SimWorker() = default;

engine::Scheduler* SimWorker::scheduler() const { return process_ ? &process_->scheduler : nullptr; }
const SimBackend* SimWorker::backend() const { return process_ ? &process_->backend : nullptr; }
const kv::KvReplica* SimWorker::follower() const { return process_ ? &process_->follower : nullptr; }
bool SimWorker::events_contradict() const { return process_ && process_->events_contradict; }

void SimWorker::follow_events() {
  for (const auto& event : process_->scheduler.take_kv_events()) {
    if (!process_->follower.apply(event)) process_->events_contradict = true;
  }
}

std::uint64_t SimWorker::preemptions() const {
  return lost_preemptions_ + (process_ ? process_->scheduler.stats().preemptions : 0);
}
std::uint64_t SimWorker::cached_tokens() const {
  return lost_cached_tokens_ + (process_ ? process_->scheduler.stats().cached_tokens : 0);
}

void SimWorker::submit(engine::GenerateRequest request) {
  if (!process_) return;
  process_->commands.emplace_back(std::move(request));
  wake();
}

void SimWorker::cancel(RequestId id) {
  if (!process_) return;
  process_->commands.emplace_back(Cancel{id});
  wake();
}

void SimWorker::crash() {
  lost_preemptions_ = preemptions();
  lost_cached_tokens_ = cached_tokens();
  process_.reset();
}

void SimWorker::restart() {
  if (!process_) process_ = std::make_shared<Process>(options_);
}

void SimWorker::stall(Duration time) { stalled_until_ = world_.now() + time; }

void SimWorker::resume() {
  stalled_until_ = world_.now();
  wake();
}

void SimWorker::fail_decodes(std::uint32_t decodes) {
  if (process_) process_->backend.fail_decodes(decodes);
}

void SimWorker::wake_at(TimePoint when) {
  world_.at(when, [this] { wake(); });
}

void SimWorker::wake() {
  if (!process_ || process_->stepping) return;
  if (stalled()) return wake_at(stalled_until_);
  engine::Scheduler& scheduler = process_->scheduler;
  std::vector<engine::Outgoing> out;
  take(std::exchange(process_->commands, {}), out);
  follow_events();
  if (scheduler.idle() && out.empty()) {
    if (idle_) idle_();
    return;
  }
  KV_CHECK(scheduler.step(out));
  follow_events();
  const auto stats = scheduler.stats();
  // At rest a checker looks first, which tells what is wrong instead of ending the process.
  if (stats.running > 0 && stats.steps % kStepsPerCheck == 0) scheduler.check();
  const auto work = process_->backend.take_work();
  const double full = static_cast<double>(stats.cells_used) / stats.cells_total;
  const Duration time = step_time(work.prefill_tokens, work.decode_tokens, full);
  world_.note(name_, "step: {} prefill, {} decode tokens; {} running, {} waiting, {} of {} cells", work.prefill_tokens,
              work.decode_tokens, stats.running, stats.waiting, stats.cells_used, stats.cells_total);
  process_->stepping = true;
  std::vector<engine::EngineEvent> events;
  events.reserve(out.size());
  for (auto& each : out) events.push_back(std::move(each.event));
  world_.after(time, [this, stepped = std::weak_ptr(process_), events = std::move(events)]() mutable {
    finish_step(stepped, std::move(events));
  });
}

void SimWorker::finish_step(const std::weak_ptr<Process>& stepped, std::vector<engine::EngineEvent> events) {
  if (stepped.expired()) return;  // it crashed meanwhile
  if (stalled()) {
    world_.at(stalled_until_,
              [this, stepped, events = std::move(events)]() mutable { finish_step(stepped, std::move(events)); });
    return;
  }
  process_->stepping = false;
  emit_(std::move(events));
  wake();
}

void SimWorker::take(std::vector<Command> commands, std::vector<engine::Outgoing>& out) {
  for (Command& command : commands) {
    if (const auto* cancelled = std::get_if<Cancel>(&command)) {
      process_->scheduler.cancel(cancelled->id);
      continue;
    }
    auto& request = std::get<engine::GenerateRequest>(command);
    const RequestId id = request.id;
    if (auto queued = process_->scheduler.submit(std::move(request), process_->sink); !queued) {
      out.push_back({process_->sink, {id, engine::Failed{queued.error()}}});
    }
  }
}

}  // namespace kvern::sim
