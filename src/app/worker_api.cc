#include "app/worker_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/tokenize/tokenize.h"
#include "api/vllm_wire/completion_request.h"
#include "api/vllm_wire/vllm_error.h"
#include "app/answer.h"
#include "app/version.h"
#include "app/wire_turn.h"
#include "base/check.h"
#include "base/json_writer.h"
#include "base/rng.h"
#include "engine/vllm/request_body.h"
#include "ir/event.h"
#include "pipeline/prepare.h"

namespace kvern::app {
namespace {

/// Prompts up to this size are prepared on the loop, as in the dispatcher.
constexpr std::size_t kInlineBytesMax = 4096;

Error draining_error() {
  Error error = fail(ErrorCode::kUnavailable, "The worker is shutting down.");
  error.retry_after = std::chrono::seconds(5);
  return error;
}

/// Text of a raw prompt, as vLLM's tokenizers take it: markup counts, and what the model expects around it is added.
Tokens encode_raw(const prompt::Tokenizer& tokenizer, const std::string& text, bool add_special) {
  Tokens tokens;
  if (add_special) tokens = tokenizer.encode_text({}, true);
  const prompt::Span span{text, prompt::Origin::kTemplate};
  const Tokens own = tokenizer.encode({&span, 1});
  tokens.insert(tokens.end(), own.begin(), own.end());
  return tokens;
}

/// A text prompt becomes tokens here; the rest is what every request goes through.
Result<engine::GenerateRequest> prepare_raw(ir::Request request, bool add_special, const pipeline::Model& model) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    if (auto error = pipeline::check_text("prompt", model, text->size())) return *std::move(error);
    request.prompt = encode_raw(*model.tokenizer, *text, add_special);
  }
  auto prepared = pipeline::prepare(request, model);
  if (!prepared) return std::move(prepared).error();
  return std::move(prepared->generate.front());
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

/// One completion between its request and its end.
struct WorkerApi::Running {
  std::shared_ptr<net::Exchange> exchange;
  std::shared_ptr<const api::WireCall> call;
  std::string path;
  std::optional<WireTurn> turn;  // once prepared
  TimePoint started;
  TimePoint last_token;
  std::string out;  // made in this batch
  bool touched = false;
  bool submitted = false;
  bool begun = false;  // tokens came
  bool head_sent = false;
};

struct WorkerApi::Lane {
  net::Loop* loop = nullptr;
  std::shared_ptr<Sink> sink;
  std::unordered_map<RequestId, Running> running;
};

/// Brings events from the engine's thread to the loop.
class WorkerApi::Sink final : public engine::EventSink {
 public:
  Sink(WorkerApi& api, Lane& lane) : api_(api), lane_(lane) {}
  void on_events(std::vector<engine::EngineEvent> events) override {
    // Loops end before the api does.
    lane_.loop->post([this, batch = std::move(events)] { api_.on_engine(lane_, batch); });
  }

 private:
  WorkerApi& api_;
  Lane& lane_;
};

WorkerApi::WorkerApi(WorkerApiParts parts)
    : parts_(std::move(parts)),
      created_(parts_.clock.unix_time()),
      metrics_(parts_.metrics, parts_.model->name),
      id_counter_(entropy_seed()) {
  for (net::Loop* loop : parts_.loops) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->loop = loop;
    lanes_.back()->sink = std::make_shared<Sink>(*this, *lanes_.back());
  }
}

WorkerApi::~WorkerApi() = default;

RequestId WorkerApi::mint() { return RequestId{Rng(id_counter_.fetch_add(1, std::memory_order_relaxed)).next()}; }

// --- Requests -----------------------------------------------------------------------------------------------------

std::optional<net::Response> WorkerApi::admit(const net::RequestHead& head) {
  std::optional<Error> error = check_guards(head, parts_.guards);
  std::string allow;
  if (!error) {
    const auto service = api::find_wire_route(head.method, head.path);
    if (!service) {
      error = service.error();
      allow = api::allowed_wire_methods(head.path);
    } else if (draining_.load(std::memory_order_relaxed) && head.method == "POST") {
      error = draining_error();
    }
  }
  if (!error) return std::nullopt;
  const RequestId id = mint();
  net::Response response = to_response(api::vllm_error(*error), id);
  if (!allow.empty()) response.headers.emplace_back("allow", allow);
  response.close = draining_.load(std::memory_order_relaxed);
  parts_.log.info("refused", {{"id", id},
                              {"method", head.method},
                              {"path", head.path},
                              {"status", response.status},
                              {"end", to_string(error->code)}});
  return response;
}

net::Response WorkerApi::refuse(int status, std::string_view reason, const net::RequestHead&) {
  Error error = kvern::fail(ErrorCode::kInvalidRequest, std::string(reason));
  if (status == 503) error.code = ErrorCode::kUnavailable;
  const RequestId id = mint();
  net::Response response = to_response(api::vllm_error(error), id);
  response.status = status;
  response.close = true;
  parts_.log.info("refused", {{"id", id}, {"status", status}, {"end", to_string(error.code)}, {"reason", reason}});
  return response;
}

void WorkerApi::serve(net::Request request, std::shared_ptr<net::Exchange> exchange) {
  const auto lane = std::ranges::find_if(lanes_, [&](const auto& each) { return each->loop == &exchange->loop(); });
  KV_CHECK(lane != lanes_.end());
  const auto service = api::find_wire_route(request.head.method, request.head.path);
  KV_CHECK(service.ok());  // admit() let it in
  Context context{std::move(request), std::move(exchange), mint(), parts_.clock.now(), **lane};
  const auto& model = *parts_.model;
  switch (*service) {
    case api::WireService::kCompletions: return serve_completion(context);
    case api::WireService::kTokenize: return serve_tokenize(context);
    case api::WireService::kDetokenize: return serve_detokenize(context);
    case api::WireService::kModels:
      return reply(context, 200, api::render_wire_models(model.name, created_.count(), model.context_tokens));
    case api::WireService::kHealth:
      // vLLM answers with an empty body.
      if (!draining_.load() && model.engine->healthy()) return reply(context, 200, {});
      return reply_error(
          context, draining_.load() ? draining_error() : kvern::fail(ErrorCode::kUnavailable, "The engine is stuck."));
    case api::WireService::kLive: return reply(context, 200, R"({"status":"live"})");
    case api::WireService::kVersion: return reply(context, 200, fmt::format(R"({{"version":"kvern-{}"}})", kVersion));
    case api::WireService::kLoad: return reply(context, 200, fmt::format(R"({{"server_load":{}}})", active()));
    case api::WireService::kEventSources: return reply(context, 200, event_sources());
    case api::WireService::kMetrics: {
      net::Response response;
      response.headers = answer_headers(context.id, "text/plain; version=0.0.4; charset=utf-8");
      response.body = parts_.metrics.text();
      return context.exchange->respond(std::move(response));
    }
  }
}

void WorkerApi::reply(const Context& context, int status, std::string body) {
  context.exchange->respond(to_response({status, {}, std::move(body)}, context.id));
}

void WorkerApi::reply_error(const Context& context, const Error& error) {
  api::Reply refusal = api::vllm_error(error);
  parts_.log.info("request", {{"id", context.id},
                              {"method", context.request.head.method},
                              {"path", context.request.head.path},
                              {"status", refusal.status},
                              {"ms", milliseconds_between(context.started, parts_.clock.now())},
                              {"end", to_string(error.code)},
                              {"param", error.param}});
  context.exchange->respond(to_response(std::move(refusal), context.id));
}

bool WorkerApi::serves(const std::string& name) const { return name.empty() || name == parts_.model->name; }

Error WorkerApi::unknown_model(const std::string& name) const {
  Error error = kvern::fail(ErrorCode::kNotFound, fmt::format("The model `{}` does not exist. Valid aliases: {}.",
                                                              name.substr(0, 64), parts_.model->name));
  error.param = "model";
  return error;
}

std::string WorkerApi::event_sources() const {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  if (!parts_.events.endpoint.empty()) {
    writer.key("0").begin_object().member("enable_kv_cache_events", true).member("publisher", "zmq");
    writer.member("endpoint", parts_.events.endpoint).key("replay_endpoint");
    parts_.events.replay_endpoint.empty() ? writer.null() : writer.value(parts_.events.replay_endpoint);
    writer.member("topic", "").end_object();
  }
  writer.end_object();
  return body;
}

void WorkerApi::serve_tokenize(Context& context) {
  auto call = api::decode_tokenize(context.request.body, parts_.limits);
  if (!call) return reply_error(context, call.error());
  if (!serves(call->request.model)) return reply_error(context, unknown_model(call->request.model));
  const auto& model = *parts_.model;
  Result<Tokens> tokens = Tokens{};
  if (const auto* text = std::get_if<std::string>(&call->request.prompt)) {
    if (auto error = pipeline::check_text("prompt", model, text->size())) return reply_error(context, *error);
    tokens = encode_raw(*model.tokenizer, *text, call->add_special_tokens.value_or(true));
  } else {
    tokens = pipeline::prompt_tokens(call->request, model);
  }
  if (!tokens) return reply_error(context, tokens.error());
  std::vector<std::string> pieces;
  if (call->return_token_strs) {
    for (const TokenId token : *tokens) pieces.push_back(model.tokenizer->piece(token, true));
  }
  reply(context, 200, api::render_tokenize(*tokens, model.context_tokens, call->return_token_strs ? &pieces : nullptr));
}

void WorkerApi::serve_detokenize(Context& context) {
  const auto call = api::decode_detokenize(context.request.body, parts_.limits);
  if (!call) return reply_error(context, call.error());
  if (!serves(call->model)) return reply_error(context, unknown_model(call->model));
  std::string text;
  prompt::Detokenizer detokenizer(*parts_.model->tokenizer, true);
  for (const TokenId token : call->tokens) {
    if (!parts_.model->tokenizer->in_range(token)) {
      return reply_error(context, invalid("tokens", fmt::format("token id {} is outside the vocabulary", token)));
    }
    detokenizer.add(token, text);
  }
  detokenizer.finish(text);
  reply(context, 200, api::render_detokenize(text));
}

// --- Completions --------------------------------------------------------------------------------------------------

void WorkerApi::serve_completion(Context& context) {
  auto decoded = api::decode_wire_completion(context.request.body, parts_.limits);
  if (!decoded) return reply_error(context, decoded.error());
  if (!serves(decoded->request.model)) return reply_error(context, unknown_model(decoded->request.model));
  decoded->request.id = context.id;
  decoded->early_usage = net::find_header(context.request.head.headers, engine::kEarlyUsageHeader).has_value();

  Lane& lane = context.lane;
  const RequestId id = context.id;
  auto request = std::make_shared<ir::Request>(std::move(decoded->request));
  decoded->request.prompt = std::string();
  decoded->request.stopping = request->stopping;
  decoded->request.logprobs = request->logprobs;
  const bool add_special = decoded->add_special_tokens;
  const bool is_small = pipeline::prompt_bytes(*request) <= kInlineBytesMax;

  Running running;
  running.exchange = context.exchange;
  running.call = std::make_shared<const api::WireCall>(std::move(*decoded));
  running.path = context.request.head.path;
  running.started = context.started;
  active_.fetch_add(1);
  context.exchange->on_gone([this, &lane, id] {
    const auto found = lane.running.find(id);
    if (found == lane.running.end()) return;
    if (found->second.submitted) parts_.model->engine->cancel(id);
    metrics_.cancelled();
    end(lane, id, 499, "client gone or not reading");
  });
  lane.running.emplace(id, std::move(running));

  auto work = [request, add_special, model = parts_.model] {
    return prepare_raw(std::move(*request), add_special, *model);
  };
  if (is_small) return prepared(lane, id, work());
  const bool taken = parts_.pool.try_run([this, &lane, id, work = std::move(work)] {
    auto outcome = std::make_shared<Result<engine::GenerateRequest>>(work());
    lane.loop->post([this, &lane, id, outcome] { prepared(lane, id, std::move(*outcome)); });
  });
  if (taken) return;
  Error error = kvern::fail(ErrorCode::kOverloaded, "Too many prompts wait to be prepared. Try again later.");
  error.retry_after = std::chrono::seconds(1);
  fail(lane, id, error);
}

void WorkerApi::prepared(Lane& lane, RequestId id, Result<engine::GenerateRequest> request) {
  const auto found = lane.running.find(id);
  if (found == lane.running.end()) return;  // the client has gone
  if (!request) return fail(lane, id, request.error());
  Running& running = found->second;
  const auto& call = *running.call;
  request->logprobs = call.request.logprobs;
  api::WireHead head{"cmpl-" + hex64(id.value), parts_.clock.unix_time().count(), parts_.model->name,
                     fmt::format("kvern-{}", kVersion)};
  running.turn.emplace(*parts_.model->tokenizer, call, std::move(head),
                       call.return_token_ids ? request->prompt : Tokens());
  auto taken = parts_.model->engine->submit(std::move(*request), lane.sink);
  if (!taken) return fail(lane, id, taken.error());
  running.submitted = true;
}

void WorkerApi::on_engine(Lane& lane, const std::vector<engine::EngineEvent>& events) {
  std::vector<RequestId> touched;
  for (const auto& event : events) {
    const auto found = lane.running.find(event.id);
    if (found == lane.running.end() || !found->second.turn) continue;  // cancelled: late events are expected
    Running& running = found->second;
    if (!std::exchange(running.touched, true)) touched.push_back(event.id);
    if (std::holds_alternative<engine::Output>(event.body)) {
      const TimePoint now = parts_.clock.now();
      running.begun ? metrics_.inter_token(seconds(now - running.last_token))
                    : metrics_.first_token(seconds(now - running.started));
      running.begun = true;
      running.last_token = now;
    }
    running.turn->take(event, running.out);
  }
  for (const RequestId id : touched) settle(lane, id);
}

/// Sends what a batch made, and ends the answer when it is over.
void WorkerApi::settle(Lane& lane, RequestId id) {
  Running& running = lane.running.at(id);
  running.touched = false;
  WireTurn& turn = *running.turn;
  std::string& out = running.out;
  turn.flush(out);
  if (turn.failure()) {
    if (running.head_sent && !out.empty()) running.exchange->write(out);
    return fail(lane, id, *turn.failure());
  }
  if (running.call->stream && !out.empty()) {
    if (!running.head_sent) {
      auto headers = answer_headers(id, "text/event-stream; charset=utf-8");
      headers.emplace_back("cache-control", "no-cache");
      running.exchange->start(200, std::move(headers));
      running.head_sent = true;
    }
    running.exchange->write(out);
    out.clear();
  }
  if (!turn.done()) return;
  if (turn.cancel_engine()) parts_.model->engine->cancel(id);
  if (running.call->stream) {
    running.exchange->finish();
  } else {
    running.exchange->respond(to_response({200, {}, std::move(out)}, id));
  }
  ir::Usage usage;
  usage.prompt_tokens = turn.usage().prompt_tokens;
  usage.completion_tokens = turn.usage().completion_tokens;
  metrics_.choice_ended(turn.cut() ? ir::FinishReason::kLength : ir::FinishReason::kStop);
  metrics_.ended(usage, seconds(parts_.clock.now() - running.started));
  end(lane, id, 200, turn.cut() ? "length" : "stop");
}

void WorkerApi::fail(Lane& lane, RequestId id, const Error& error) {
  Running& running = lane.running.at(id);
  metrics_.failed();
  if (running.head_sent) {
    std::string out;
    api::WireAnswer::fail(error, out);
    running.exchange->write(out);
    running.exchange->finish();
    return end(lane, id, 200, to_string(error.code));
  }
  auto reply = api::vllm_error(error);
  const int status = reply.status;
  running.exchange->respond(to_response(std::move(reply), id));
  end(lane, id, status, to_string(error.code));
}

void WorkerApi::end(Lane& lane, RequestId id, int status, std::string_view why) {
  const auto found = lane.running.find(id);
  const Running& running = found->second;
  const auto usage = running.turn ? running.turn->usage() : api::WireUsage();
  const double ms = milliseconds_between(running.started, parts_.clock.now());
  parts_.log.info("request", {{"id", id},
                              {"method", "POST"},
                              {"path", running.path},
                              {"status", status},
                              {"ms", ms},
                              {"prompt_tokens", usage.prompt_tokens},
                              {"cached_tokens", usage.cached_tokens.value_or(0)},
                              {"completion_tokens", usage.completion_tokens},
                              {"end", why}});
  lane.running.erase(found);
  active_.fetch_sub(1);
}

void WorkerApi::fail_all() {
  for (const auto& lane : lanes_) {
    lane->loop->post([this, lane = lane.get()] {
      std::vector<RequestId> ids;
      ids.reserve(lane->running.size());
      for (const auto& [id, running] : lane->running) ids.push_back(id);
      for (const RequestId id : ids) {
        if (lane->running.at(id).submitted) parts_.model->engine->cancel(id);
        fail(*lane, id, draining_error());
      }
    });
  }
}

}  // namespace kvern::app
