#include "pipeline/dispatcher.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "ir/usage_sum.h"
#include "parser/hermes.h"
#include "parser/plain.h"
#include "pipeline/prepare.h"

namespace kvern::pipeline {
namespace {

/// Prompts up to this size are prepared on the loop itself: about a millisecond, less than two hops under load.
constexpr std::size_t kInlineBytesMax = 4096;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::unique_ptr<parser::Parser> make_parser(const Model& model, const ir::Request& request, bool starts_in_reasoning) {
  const bool is_chat = std::holds_alternative<std::vector<ir::Message>>(request.prompt);
  if (!is_chat || model.parser == "plain") return parser::make_plain_parser();
  parser::HermesOptions options;
  options.starts_in_reasoning = starts_in_reasoning;
  options.parse_calls = !request.tools.empty() && request.tool_choice.kind != ir::ToolChoice::Kind::kNone;
  return parser::make_hermes_parser(options);
}

}  // namespace

/// One stream of the answer.
struct Dispatcher::Choice {
  RequestId engine_id;
  std::unique_ptr<Turn> turn;
  std::optional<TimePoint> last_token;
  bool ended = false;
  TurnOutput output;  // of the batch at hand
  bool in_batch = false;
};

struct Dispatcher::Active {
  RequestId id;
  std::shared_ptr<const ir::Request> request;  // until it is with the engine: a conversation is large
  std::shared_ptr<const Model> model;
  std::shared_ptr<EventReceiver> receiver;
  TimePoint started;
  std::vector<Choice> choices;  // those given to the engine
  std::size_t running = 0;      // of all, not ended
  ir::UsageSum usage{1};
  bool first_token_seen = false;
};

/// Carries events from an engine's thread to the executor. Outlives the dispatcher where an engine still holds it.
class Dispatcher::Sink final : public engine::EventSink {
 public:
  explicit Sink(Executor& executor) : executor_(executor) {}
  void set_owner(std::weak_ptr<Dispatcher> owner) { owner_ = std::move(owner); }

  void on_events(std::vector<engine::EngineEvent> events) override {
    if (owner_.expired()) return;
    executor_.post([owner = owner_, batch = std::move(events)] {
      if (const auto dispatcher = owner.lock()) dispatcher->on_engine(batch);
    });
  }

 private:
  Executor& executor_;
  std::weak_ptr<Dispatcher> owner_;  // set before any engine sees the sink
};

std::shared_ptr<Dispatcher> Dispatcher::create(Executor& executor, Pool& pool, PipelineMetrics& metrics,
                                               std::function<RequestId()> mint) {
  std::shared_ptr<Dispatcher> dispatcher(new Dispatcher(executor, pool, metrics, std::move(mint)));
  dispatcher->sink_->set_owner(dispatcher);
  return dispatcher;
}

Dispatcher::Dispatcher(Executor& executor, Pool& pool, PipelineMetrics& metrics, std::function<RequestId()> mint)
    : executor_(executor),
      pool_(pool),
      metrics_(metrics),
      mint_(std::move(mint)),
      sink_(std::make_shared<Sink>(executor)) {}

Dispatcher::~Dispatcher() {
  for (const auto& [id, place] : places_) place.active->model->engine->cancel(id);
}

void Dispatcher::start(ir::Request request, std::shared_ptr<const Model> model,
                       std::shared_ptr<EventReceiver> receiver) {
  const RequestId id = request.id;
  auto active = std::make_unique<Active>();
  active->id = id;
  active->request = std::make_shared<const ir::Request>(std::move(request));
  active->model = std::move(model);
  active->receiver = std::move(receiver);
  active->started = executor_.clock().now();
  active->usage = ir::UsageSum(active->request->choices);
  const auto shared_request = active->request;
  const auto shared_model = active->model;
  const bool is_new = active_.emplace(id, std::move(active)).second;
  KV_CHECK(is_new);

  // Hops hold the request and the model themselves, so a cancel in between only makes their result unwanted.
  auto work = [this_weak = weak_from_this(), executor = &executor_, id, shared_request, shared_model] {
    auto outcome = std::make_shared<Result<Prepared>>(prepare(*shared_request, *shared_model));
    executor->post([this_weak, id, outcome] {
      if (const auto dispatcher = this_weak.lock()) dispatcher->prepared(id, std::move(*outcome));
    });
  };
  if (prompt_bytes(*shared_request) <= kInlineBytesMax) {
    executor_.post(std::move(work));
  } else if (!pool_.try_run(std::move(work))) {
    executor_.post([this_weak = weak_from_this(), id] {
      Error error = kvern::fail(ErrorCode::kOverloaded, "Too many prompts wait to be prepared. Try again later.");
      error.retry_after = std::chrono::seconds(1);
      if (const auto dispatcher = this_weak.lock()) dispatcher->fail(id, std::move(error));
    });
  }
}

void Dispatcher::prepared(RequestId id, Result<Prepared> prepared) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;  // cancelled meanwhile
  if (!prepared) return fail(id, std::move(prepared).error());
  submit(*found->second, std::move(*prepared));
}

void Dispatcher::submit(Active& active, Prepared all) {
  const ir::Request& request = *active.request;
  active.choices.reserve(all.generate.size());
  active.running = all.generate.size();
  for (auto& generate : all.generate) {
    if (!active.choices.empty()) generate.id = mint_();
    TurnOptions options;
    options.id = generate.id;
    options.tokenizer = active.model->tokenizer.get();
    options.parser = make_parser(*active.model, request, all.starts_in_reasoning);
    options.stop_strings = request.stopping.strings;
    options.min_tokens = request.stopping.min_tokens;
    options.logprobs = request.logprobs.has_value();
    const auto choice = static_cast<std::uint32_t>(active.choices.size());
    active.choices.push_back({generate.id, std::make_unique<Turn>(std::move(options)), std::nullopt, false, {}, false});
    const bool is_new = places_.emplace(generate.id, Place{&active, choice}).second;
    KV_CHECK(is_new);
    if (auto submitted = active.model->engine->submit(std::move(generate), sink_); !submitted) {
#ifdef KVERN_CANARY_LOST_FAILURE
      return;
#endif
      active.choices.back().ended = true;
      return fail(request.id, std::move(submitted).error());  // takes back those that were submitted
    }
  }
  active.request.reset();
}

void Dispatcher::on_engine(const std::vector<engine::EngineEvent>& events) {
  // Events of one choice stand in order, but those of several may be mixed: gather, then deliver each once.
  for (const auto& event : events) {
    const auto found = places_.find(event.id);
    if (found == places_.end()) continue;  // cancelled: late events are expected
    Active& active = *found->second.active;
    Choice& choice = active.choices[found->second.choice];
    if (!std::exchange(choice.in_batch, true)) batch_.push_back(event.id);
    if (std::holds_alternative<engine::Output>(event.body)) time_token(active, choice);
    choice.turn->on_engine(event, choice.output);
  }
  for (const RequestId engine_id : batch_) deliver(engine_id);
  batch_.clear();
}

void Dispatcher::time_token(Active& active, Choice& choice) {
  const TimePoint now = executor_.clock().now();
  if (choice.last_token) {
    metrics_.inter_token(seconds(now - *choice.last_token));
  } else if (!active.first_token_seen) {
    metrics_.first_token(seconds(now - active.started));
  }
  active.first_token_seen = true;
  choice.last_token = now;
}

void Dispatcher::deliver(RequestId engine_id) {
  const auto found = places_.find(engine_id);
  if (found == places_.end()) return;  // a receiver of this batch cancelled it, or another choice failed
  const Place place = found->second;
  Choice& choice = place.active->choices[place.choice];
  choice.in_batch = false;
  TurnOutput output = std::exchange(choice.output, {});
  if (output.cancel_engine) place.active->model->engine->cancel(engine_id);
  if (output.events.empty()) return;
  if (std::holds_alternative<ir::Failure>(output.events.back())) {
    choice.ended = true;  // by itself: the engine knows
    return break_off(*place.active, place.choice, std::move(output.events));
  }
  if (std::holds_alternative<ir::End>(output.events.back())) return finish_choice(place, std::move(output.events));
  const auto receiver = place.active->receiver;  // it may cancel, which ends the request
  receiver->on_events(place.choice, std::move(output.events));
}

void Dispatcher::finish_choice(Place place, std::vector<ir::Event> events) {
  const auto& end = std::get<ir::End>(events.back());
  Active& active = *place.active;
  Choice& choice = active.choices[place.choice];
  choice.ended = true;
  choice.turn.reset();
  places_.erase(choice.engine_id);
  active.usage.add(place.choice, end.usage);
  metrics_.choice_ended(end.reason);
  auto receiver = active.receiver;
  if (--active.running == 0) {
    metrics_.ended(active.usage.total(), seconds(executor_.clock().now() - active.started));
    remove(active_.find(active.id));  // over before the receiver hears of it, since it may start another
  }
#ifdef KVERN_CANARY_EARLY_END
  if (events.size() > 1) std::swap(events.back(), events[events.size() - 2]);
#endif
  receiver->on_events(place.choice, std::move(events));
}

void Dispatcher::break_off(Active& active, std::uint32_t choice, std::vector<ir::Event> events) {
  metrics_.failed();
  const auto receiver = remove(active_.find(active.id));
  receiver->on_events(choice, std::move(events));
}

void Dispatcher::fail(RequestId id, Error error) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  std::vector<ir::Event> events;
  events.emplace_back(ir::Failure{std::move(error)});
  break_off(*found->second, 0, std::move(events));
}

void Dispatcher::cancel(RequestId id) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  metrics_.cancelled();
  remove(found);
}

/// Takes the request out, and what of it still runs away from the engine.
std::shared_ptr<EventReceiver> Dispatcher::remove(ActiveMap::iterator at) {
  KV_CHECK(at != active_.end());
  const std::unique_ptr<Active> active = std::move(at->second);
  active_.erase(at);
  for (const Choice& choice : active->choices) {
    places_.erase(choice.engine_id);
    if (!choice.ended) active->model->engine->cancel(choice.engine_id);
  }
  return active->receiver;
}

}  // namespace kvern::pipeline
