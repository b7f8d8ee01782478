#include "sim/session.h"

#include <algorithm>
#include <utility>

#include "sim/draw.h"

namespace kvern::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kTurnsMax = 6;
constexpr std::uint32_t kTriesMax = 3;
constexpr Duration kBeginWithin = std::chrono::seconds(8);
constexpr Duration kTryAgainWithin = std::chrono::seconds(2);
// The last questions do not come all at once: what is to show is that each is answered, not that all fit.
constexpr Duration kCalmFor = std::chrono::seconds(60);

}  // namespace

/// What the pipeline tells. Weak to the session, so that a receiver nobody should hold shows as a leak.
class Session::Receiver final : public pipeline::EventReceiver, public std::enable_shared_from_this<Receiver> {
 public:
  explicit Receiver(std::weak_ptr<Session> session) : session_(std::move(session)) {}
  void on_events(std::uint32_t choice, std::vector<ir::Event> events) override {
    if (const auto session = session_.lock()) session->take(shared_from_this(), choice, events);
  }

  Call call;
  std::vector<std::string> texts;  // of each choice
  std::uint32_t running = 0;       // choices not ended

  bool has_text() const {
    return std::ranges::any_of(texts, [](const auto& text) { return !text.empty(); });
  }

 private:
  std::weak_ptr<Session> session_;
};

Session::Session(World& world, Site& site, CallObserver& observer, Tally& tally, const SessionPlan& plan,
                 std::string name)
    : world_(world),
      loop_(*site.loops()[world.fork_rng().below(site.loops().size())]),
      model_(site.model()),
      observer_(observer),
      tally_(tally),
      plan_(plan),
      name_(std::move(name)),
      rng_(world.fork_rng()),
      conversation_(world.fork_rng()),
      turns_left_(draw(rng_, 1, kTurnsMax)) {}

void Session::begin() {
  tries_left_ = kTriesMax;
  ask_after(draw(rng_, Duration(0), kBeginWithin));
}

void Session::ask_after(Duration delay) {
  loop_.executor.post_after(delay, [self = weak_from_this()] {
    if (const auto session = self.lock()) session->ask(session->conversation_.ask());
  });
}

void Session::ask(ir::Request request) {
  request.id = RequestId{rng_.next()};
  current_ = std::make_shared<Receiver>(weak_from_this());
  Call& call = current_->call;
  call.request = std::make_shared<const ir::Request>(request);
  call.calm = world_.now() >= plan_.calm;
  call.receiver = current_;
  current_->texts.resize(request.choices);
  current_->running = request.choices;
  tally_.add(Happening::kRequest);
  world_.note(name_, "asks {}, priority {}", to_string(request.id), request.hints.priority);
  observer_.on_started(call);
  loop_.dispatcher->start(std::move(request), model_, current_);
  plan_hang_up();
}

void Session::plan_hang_up() {
  hang_up_ = HangUp::kNever;
  if (world_.now() >= plan_.heal || !chance(rng_, 0.3)) return;
  hang_up_ = static_cast<HangUp>(draw(rng_, 1, 3));
  if (hang_up_ == HangUp::kAtOnce) return hang_up();
  if (hang_up_ == HangUp::kInText) {
    deltas_left_ = draw(rng_, 1, 30);
    return;
  }
  // Most of a short time, some of a long one: in the pool, on the wire, in the queue, in prefill, in the text.
  const Duration longest = chance(rng_, 0.5) ? milliseconds(30) : milliseconds(2000);
  loop_.executor.post_after(draw(rng_, Duration(0), longest), [self = weak_from_this(), id = current_->call.id()] {
    const auto session = self.lock();
    if (session && session->current_ && session->current_->call.id() == id) session->hang_up();
  });
}

void Session::hang_up() {
  const auto receiver = std::exchange(current_, nullptr);
  world_.note(name_, "hangs up");
  tally_.add(receiver->has_text() ? Happening::kGoneInText : Happening::kGoneBeforeText);
  observer_.on_gone(receiver->call);
  loop_.dispatcher->cancel(receiver->call.id());
  turn_over(false);
}

void Session::take(const std::shared_ptr<Receiver>& from, std::uint32_t choice, const std::vector<ir::Event>& events) {
  for (const auto& event : events) {
    world_.note(name_, "{}{}", choice == 0 ? "" : fmt::format("choice {}: ", choice), say(event));
    observer_.on_event(from->call, choice, event);
    if (from != current_) continue;  // nothing is owed any more; the observer has been told
    if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      from->texts[choice] += delta->text;
      if (hang_up_ == HangUp::kInText && --deltas_left_ == 0) return hang_up();
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      tally_.add(Happening::kEnd);
      if (end->reason == ir::FinishReason::kLength) tally_.add(Happening::kEndByLength);
      if (end->reason == ir::FinishReason::kStopString) tally_.add(Happening::kEndByStopString);
      if (--from->running > 0) continue;
      conversation_.answered(from->texts[0]);
      current_ = nullptr;
      turn_over(true);
    } else if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      if (failure->error.code == ErrorCode::kContextLength) conversation_.start_over();
      tally_.add(from->has_text() ? Happening::kFailureInText : Happening::kFailureBeforeText);
      current_ = nullptr;
      turn_over(false);
    }
  }
}

void Session::turn_over(bool answered) {
  if (!answered && chance(rng_, 0.5) && tries_left_ > 0) {
    --tries_left_;
    loop_.executor.post_after(draw(rng_, Duration(0), kTryAgainWithin), [self = weak_from_this()] {
      if (const auto session = self.lock()) session->ask(session->conversation_.ask_again());
    });
    return;
  }
  if (turns_left_ == 0) return over();
  tries_left_ = kTriesMax;
  if (--turns_left_ > 0) {
    // Some have their next question ready and ask it from inside the last event.
    if (answered && chance(rng_, 0.2)) return ask(conversation_.ask());
    return ask_after(draw_wait(rng_, plan_.think_mean));
  }
  // The last one, when all is well.
  const Duration to_calm = std::max(Duration(0), plan_.calm - world_.now());
  ask_after(to_calm + draw(rng_, Duration(0), kCalmFor));
}

void Session::over() {
  world_.note(name_, "is done");
  done_ = true;
}

std::string Session::say(const ir::Event& event) const {
  struct Words {
    std::string operator()(const ir::Start& start) const {
      return fmt::format("start: {} prompt tokens, {} cached", start.usage.prompt_tokens,
                         start.usage.cached_tokens.value_or(0));
    }
    std::string operator()(const ir::BlockStart& block) const {
      return fmt::format("block {} begins: {}", block.index, to_string(block.kind));
    }
    std::string operator()(const ir::BlockDelta& delta) const { return fmt::format("'{}'", delta.text); }
    std::string operator()(const ir::BlockStop& block) const { return fmt::format("block {} ends", block.index); }
    std::string operator()(const ir::End& end) const {
      return fmt::format("end: {} {}, {} tokens", to_string(end.reason), end.stop_string, end.usage.completion_tokens);
    }
    std::string operator()(const ir::Failure& failure) const {
      return fmt::format("failure: {}, {}", to_string(failure.error.code), failure.error.message);
    }
  };
  return std::visit(Words{}, event);
}

}  // namespace kvern::sim
