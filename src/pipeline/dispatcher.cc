#include "pipeline/dispatcher.h"

#include <utility>

#include "base/check.h"
#include "parser/hermes.h"
#include "parser/plain.h"
#include "pipeline/prepare.h"

namespace kvern::pipeline {
namespace {

/// Prompts up to this size are prepared on the loop itself: about a millisecond, less than two hops under load.
constexpr std::size_t kInlineBytesMax = 4096;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::unique_ptr<parser::Parser> make_parser(const ir::Request& request, bool starts_in_reasoning) {
  if (!std::holds_alternative<std::vector<ir::Message>>(request.prompt)) return parser::make_plain_parser();
  parser::HermesOptions options;
  options.starts_in_reasoning = starts_in_reasoning;
  options.parse_calls = !request.tools.empty() && request.tool_choice.kind != ir::ToolChoice::Kind::kNone;
  return parser::make_hermes_parser(options);
}

}  // namespace

struct Dispatcher::Active {
  std::shared_ptr<const ir::Request> request;
  std::shared_ptr<const Model> model;
  std::shared_ptr<EventReceiver> receiver;
  std::unique_ptr<Turn> turn;  // once prepared
  TimePoint started;
  TimePoint last_token;
  bool submitted = false;
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

std::shared_ptr<Dispatcher> Dispatcher::create(Executor& executor, Pool& pool, PipelineMetrics& metrics) {
  std::shared_ptr<Dispatcher> dispatcher(new Dispatcher(executor, pool, metrics));
  dispatcher->sink_->set_owner(dispatcher);
  return dispatcher;
}

Dispatcher::Dispatcher(Executor& executor, Pool& pool, PipelineMetrics& metrics)
    : executor_(executor), pool_(pool), metrics_(metrics), sink_(std::make_shared<Sink>(executor)) {}

Dispatcher::~Dispatcher() {
  for (auto& [id, active] : active_) {
    if (active->submitted) active->model->engine->cancel(id);
  }
}

void Dispatcher::start(ir::Request request, std::shared_ptr<const Model> model,
                       std::shared_ptr<EventReceiver> receiver) {
  const RequestId id = request.id;
  auto active = std::make_unique<Active>();
  active->request = std::make_shared<const ir::Request>(std::move(request));
  active->model = std::move(model);
  active->receiver = std::move(receiver);
  active->started = executor_.clock().now();
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
  Active& active = *found->second;
  if (!prepared) return fail(id, std::move(prepared).error());
  TurnOptions options;
  options.id = id;
  options.tokenizer = active.model->tokenizer.get();
  options.parser = make_parser(*active.request, prepared->starts_in_reasoning);
  options.stop_strings = active.request->stopping.strings;
  options.min_tokens = active.request->stopping.min_tokens;
  active.turn = std::make_unique<Turn>(std::move(options));
  if (auto submitted = active.model->engine->submit(std::move(prepared->generate), sink_); !submitted) {
#ifdef KVERN_CANARY_LOST_FAILURE
    return;
#endif
    return fail(id, std::move(submitted).error());
  }
  active.submitted = true;
}

void Dispatcher::on_engine(const std::vector<engine::EngineEvent>& events) {
  // Events of one request stand in order, but those of several may be mixed: gather, then deliver each once.
  std::unordered_map<RequestId, TurnOutput> outputs;
  std::vector<RequestId> order;
  for (const auto& event : events) {
    const auto found = active_.find(event.id);
    if (found == active_.end()) continue;  // cancelled: late events are expected
    Active& active = *found->second;
    const auto [slot, is_first] = outputs.try_emplace(event.id);
    if (is_first) order.push_back(event.id);
    if (std::holds_alternative<engine::Output>(event.body)) {
      const TimePoint now = executor_.clock().now();
      if (active.first_token_seen) {
        metrics_.inter_token(seconds(now - active.last_token));
      } else {
        metrics_.first_token(seconds(now - active.started));
      }
      active.first_token_seen = true;
      active.last_token = now;
    }
    active.turn->on_engine(event, slot->second);
  }
  for (const RequestId id : order) deliver(id, std::move(outputs[id]));
}

void Dispatcher::deliver(RequestId id, TurnOutput output) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;  // a receiver of this batch cancelled it
  Active& active = *found->second;
  if (output.cancel_engine) active.model->engine->cancel(id);
  if (output.events.empty()) return;
  const auto* end = std::get_if<ir::End>(&output.events.back());
  const bool failed = std::holds_alternative<ir::Failure>(output.events.back());
  if (end == nullptr && !failed) {
    const auto receiver = active.receiver;  // it may cancel, which ends `active`
    receiver->on_events(std::move(output.events));
    return;
  }
  if (end != nullptr) {
    metrics_.ended(*end, seconds(executor_.clock().now() - active.started));
  } else {
    metrics_.failed();
  }
  const auto receiver = std::move(active.receiver);
  active_.erase(found);  // over before the receiver hears of it, since it may start another
#ifdef KVERN_CANARY_EARLY_END
  if (output.events.size() > 1) std::swap(output.events.back(), output.events[output.events.size() - 2]);
#endif
  receiver->on_events(std::move(output.events));
}

void Dispatcher::fail(RequestId id, Error error) {
  TurnOutput output;
  output.events.push_back(ir::Failure{std::move(error)});
  deliver(id, std::move(output));
}

void Dispatcher::cancel(RequestId id) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  if (found->second->submitted) found->second->model->engine->cancel(id);
  metrics_.cancelled();
  active_.erase(found);
}

}  // namespace kvern::pipeline
