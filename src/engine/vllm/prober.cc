#include "engine/vllm/prober.h"

#include <utility>

namespace kvern::engine {
namespace {

/// Health is asked every round, names and lengths only this often: a restarted worker may have others.
constexpr std::uint32_t kFactsEvery = 5;
/// Failures come in crowds; one question answers for all.
constexpr auto kHurryPause = std::chrono::milliseconds(200);

}  // namespace

Prober::Prober(net::Loop& loop, std::shared_ptr<WorkerState> state, std::function<void()> on_dead)
    : loop_(loop),
      state_(std::move(state)),
      on_dead_(std::move(on_dead)),
      client_(net::Client::create(loop, 1)),
      last_asked_(state_->now()) {}

void Prober::hurry() {
  if (!asking_ && state_->now() - last_asked_ >= kHurryPause) ask();
}

void Prober::wait() {
  loop_.post_after(state_->options().deadlines.probe_interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    if (!self->asking_) self->ask();
    self->wait();
  });
}

void Prober::ask() {
  asking_ = true;
  last_asked_ = state_->now();
  const VllmOptions& options = state_->options();
  const bool wants_facts = was_down_ || ++rounds_ % kFactsEvery == 0;
  if (!wants_facts) {
    return probe_health(*client_, options.address, options.deadlines.probe,
                        [this](const Result<void>& result) { answered(result, nullptr); });
  }
  probe_worker(*client_, options.address, options.model, options.deadlines.probe,
               [this](const Result<WorkerFacts>& facts) {
                 if (!facts) return answered(facts.error(), nullptr);
                 answered({}, &*facts);
               });
}

// Called by the client, which is this object's: it is there.
void Prober::answered(const Result<void>& result, const WorkerFacts* facts) {
  asking_ = false;
  was_down_ = !result.ok();
  if (result) return state_->passed_probe(facts);
  state_->failed_probe(result.error());
  const Duration left = state_->options().deadlines.silent_max - (state_->now() - state_->last_sign());
  if (left <= Duration::zero()) return on_dead_();
  // The next failure may come long after the deadline.
  if (std::exchange(watching_, true)) return;
  loop_.post_after(std::chrono::ceil<std::chrono::milliseconds>(left), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look_for_silence();
  });
}

void Prober::look_for_silence() {
  watching_ = false;
  const bool is_silent = state_->now() - state_->last_sign() >= state_->options().deadlines.silent_max;
  if (was_down_ && is_silent) on_dead_();
}

}  // namespace kvern::engine
