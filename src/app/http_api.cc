#include "app/http_api.h"

#include <fmt/format.h>

#include <utility>

#include "api/answer_extension.h"
#include "api/bounds.h"
#include "api/chat/chat.h"
#include "api/completions/completions.h"
#include "api/decode_call.h"
#include "api/extension.h"
#include "api/messages/messages.h"
#include "api/models/models.h"
#include "api/openapi/openapi.h"
#include "api/responses/responses.h"
#include "api/tokenize/tokenize.h"
#include "app/http_lane.h"
#include "app/version.h"
#include "base/check.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "pipeline/prepare.h"
#include "prompt/detokenizer.h"

namespace kvern::app {
namespace {

/// Prompts up to this size are tokenised on the loop, as in the dispatcher.
constexpr std::size_t kInlineBytesMax = 4096;

/// Every status kvern answers with; 499 is a client that hung up.
constexpr int kStatuses[] = {200, 400, 401, 403, 404, 405, 408, 413, 415, 417, 421,
                             426, 429, 431, 499, 500, 501, 503, 504, 505, 529};

/// What a person sees who opens the address: what this is, and what it answers.
std::string describe_server() {
  std::string body;
  json::Writer writer(body);
  writer.begin_object().member("name", "kvern").member("version", kVersion).key("endpoints").begin_array();
  for (const auto& endpoint : api::endpoints()) writer.value(fmt::format("{} {}", endpoint.method, endpoint.path));
  writer.end_array().end_object();
  return body;
}

/// The pipeline counts all requests under one name: that of the model, where there is one.
std::string metrics_label(const pipeline::ModelSet& models) {
  const auto all = models.all();
  return all.size() == 1 ? all.front()->name : "all";
}

/// For the log; never a key.
std::string client_request_id(const net::RequestHead& head) {
  return std::string(net::find_header(head.headers, "x-request-id").value_or("").substr(0, 256));
}

constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr std::string_view kMessagesPath = "/v1/messages";
/// How exact the waits of answers are.
constexpr auto kAnswerTick = std::chrono::seconds(1);

/// Where two APIs share a path, this header says which one is meant.
bool is_anthropic(const net::RequestHead& head) {
  return net::find_header(head.headers, "anthropic-version").has_value();
}

/// Requests whose answer needs no worker go on while draining: probes must see the state.
bool is_probe(api::Service service) {
  return service == api::Service::kLive || service == api::Service::kReady || service == api::Service::kHealth ||
         service == api::Service::kMetrics;
}

}  // namespace

Error draining_error() {
  Error error = fail(ErrorCode::kUnavailable, "The server is shutting down.");
  error.retry_after = std::chrono::seconds(5);
  return error;
}

HttpApi::HttpApi(HttpApiParts parts)
    : parts_(std::move(parts)),
      chat_(api::make_chat_dialect(parts_.limits)),
      completions_(api::make_completions_dialect(parts_.limits)),
      responses_dialect_(api::make_responses_dialect(
          parts_.limits, {parts_.seal, parts_.clock, parts_.reasoning_events, parts_.store != nullptr})),
      messages_(api::make_messages_dialect(parts_.limits)),
      created_(parts_.clock.unix_time()),
      pipeline_metrics_(std::make_unique<pipeline::PipelineMetrics>(parts_.metrics, metrics_label(parts_.models))),
      runs_(parts_.background_max),
      id_counter_(entropy_seed()) {
  for (const int status : kStatuses) {
    responses_.emplace(status, &parts_.metrics.counter("kvern_http_responses_total", "Answers by status",
                                                       {{"status", std::to_string(status)}}));
  }
  for (net::Loop* loop : parts_.loops) {
    auto lane = std::make_shared<Lane>();
    lane->loop = loop;
    lane->dispatcher = pipeline::Dispatcher::create(*loop, parts_.pool, *pipeline_metrics_, [this] { return mint(); });
    lane_by_loop_.emplace(loop, lane.get());
    lanes_.push_back(std::move(lane));
  }
}

HttpApi::~HttpApi() = default;

RequestId HttpApi::mint() {
  // splitmix64 is a bijection, so ids of one process never repeat; the counter starts at random.
  return RequestId{Rng(id_counter_.fetch_add(1, std::memory_order_relaxed)).next()};
}

HttpApi::Lane& HttpApi::lane_of(net::Exchange& exchange) {
  const auto found = lane_by_loop_.find(&exchange.loop());
  KV_CHECK(found != lane_by_loop_.end());
  return *found->second;
}

void HttpApi::count(int status) {
  const auto found = responses_.find(status);
  (found == responses_.end() ? responses_.at(500) : found->second)->Increment();
}

const api::Dialect& HttpApi::dialect_of(const net::RequestHead& head) const {
  const bool messages = head.path == kMessagesPath || head.path.starts_with(std::string(kMessagesPath) + "/") ||
                        (head.path.starts_with("/v1/models") && is_anthropic(head));
  return messages ? *messages_ : *chat_;
}

std::optional<net::Response> HttpApi::admit(const net::RequestHead& head) {
  std::optional<Error> error = check_guards(head, parts_.guards);
  std::string allow;
  if (!error) {
    auto route = api::find_route(head.method, head.path);
    // Whoever has no key does not learn either which paths there are.
    const auto caller =
        authenticate(head, parts_.keys, route ? route->endpoint->guard : api::Guard::kTenant, parts_.limits);
    if (!caller) {
      error = caller.error();
    } else if (!route) {
      error = std::move(route).error();
      allow = api::allowed_methods(head.path);
    } else if (draining_.load(std::memory_order_relaxed) && !is_probe(route->endpoint->service)) {
      error = draining_error();
    }
  }
  if (!error) return std::nullopt;
  const RequestId id = mint();
  net::Response response = to_response(dialect_of(head).error(*error, id), id);
  if (!allow.empty()) response.headers.emplace_back("allow", allow);
  response.close = draining_.load(std::memory_order_relaxed);
  parts_.log.info("refused", {{"id", id},
                              {"method", head.method},
                              {"path", head.path},
                              {"status", response.status},
                              {"end", to_string(error->code)},
                              {"client_request_id", client_request_id(head)}});
  count(response.status);
  return response;
}

net::Response HttpApi::refuse(int status, std::string_view reason, const net::RequestHead& head) {
  Error error = fail(ErrorCode::kInvalidRequest, std::string(reason));
  if (status == 503) error.code = ErrorCode::kUnavailable;
  const RequestId id = mint();
  net::Response response = to_response(dialect_of(head).error(error, id), id);
  response.status = status;
  response.close = true;
  parts_.log.info("refused", {{"id", id}, {"status", status}, {"end", to_string(error.code)}, {"reason", reason}});
  count(status);
  return response;
}

void HttpApi::serve(net::Request request, std::shared_ptr<net::Exchange> exchange) {
  Lane& lane = lane_of(*exchange);
  const auto route = api::find_route(request.head.method, request.head.path);
  KV_CHECK(route.ok());                      // admit() let it in
  json::mend_half_surrogates(request.body);  // before anything of it is kept or said again
  std::string rest(route->rest);
  auto caller = authenticate(request.head, parts_.keys, route->endpoint->guard, parts_.limits);
  KV_CHECK(caller.ok());  // likewise
  Context context{std::move(request), std::move(exchange), mint(), parts_.clock.now(),
                  std::move(rest),    *std::move(caller),  lane};
  switch (route->endpoint->service) {
    case api::Service::kChat: return serve_generation(context, *chat_);
    case api::Service::kCompletions: return serve_generation(context, *completions_);
    case api::Service::kResponses: return serve_responses(context, &api::ResponsesDialect::decode_call);
    case api::Service::kCompact: return serve_responses(context, &api::ResponsesDialect::decode_compact);
    case api::Service::kResponse: return serve_response(context);
    case api::Service::kInputItems: return serve_input_items(context);
    case api::Service::kCancel: return serve_cancel(context);
    case api::Service::kMessages: return serve_generation(context, *messages_);
    case api::Service::kCountTokens: return serve_count_tokens(context);
    case api::Service::kModels:
    case api::Service::kModel: return serve_models(context);
    case api::Service::kTokenize: return serve_tokenize(context);
    case api::Service::kDetokenize: return serve_detokenize(context);
    case api::Service::kLive: return reply(context, {200, {}, "{\"status\":\"live\"}"});
    case api::Service::kReady:
    case api::Service::kHealth:
      if (!ready()) {
        return reply_error(
            context, draining_.load() ? draining_error() : fail(ErrorCode::kUnavailable, "No worker can answer."));
      }
      return reply(context, {200, {}, "{\"status\":\"ready\"}"});
    case api::Service::kMetrics: {
      net::Response response;
      response.headers = answer_headers(context.id, "text/plain; version=0.0.4; charset=utf-8");
      response.body = parts_.metrics.text();
      count(200);
      return context.exchange->respond(std::move(response));
    }
    case api::Service::kOpenApi: return reply(context, {200, {}, api::render_openapi(kVersion)});
    case api::Service::kRoot: return reply(context, {200, {}, describe_server()});
  }
}

bool HttpApi::ready() const {
  if (draining_.load()) return false;
  for (const auto& model : parts_.models.all()) {
    if (model->engine->healthy()) return true;
  }
  return false;
}

void HttpApi::reply(Context& context, api::Reply reply) {
  count(reply.status);
  context.exchange->respond(to_response(std::move(reply), context.id));
}

void HttpApi::reply_error(Context& context, const Error& error) {
  const net::RequestHead& head = context.request.head;
  api::Reply refusal = dialect_of(head).error(error, context.id);
  parts_.log.info("request", {{"id", context.id},
                              {"method", head.method},
                              {"path", head.path},
                              {"status", refusal.status},
                              {"ms", milliseconds_between(context.started, parts_.clock.now())},
                              {"end", to_string(error.code)},
                              {"param", error.param},
                              {"client_request_id", client_request_id(head)}});
  reply(context, std::move(refusal));
}

Error HttpApi::unknown_model(std::string_view name) const {
  std::vector<api::ModelEntry> entries;
  for (const auto& model : parts_.models.all()) entries.push_back({model->name});
  if (entries.empty()) {
    Error error = fail(ErrorCode::kUnavailable, "No worker has answered yet.");
    error.retry_after = std::chrono::seconds(1);
    return error;
  }
  if (name.empty()) return invalid("model", "`model` is required: several are served.");
  return api::unknown_model(entries, name);
}

void HttpApi::serve_generation(Context& context, const api::Dialect& dialect) {
  api::DecodeContext decode_context{context.id, parts_.clock.unix_time()};
  decode_context.tenant = context.caller.tenant;
  auto call = api::decode_call(dialect, context.request.body, context.request.head.headers, decode_context,
                               parts_.limits, context.caller.admin);
  if (!call) return reply_error(context, call.error());
  context.request.body = {};  // the ir holds what is needed: a large body need not live as long as the answer
  const auto model = complete(context, *call);
  if (!model) return;
  if (&dialect == messages_.get()) note_client(context, call->request);
  start(context, dialect, *std::move(call), model, nullptr);
}

std::shared_ptr<const pipeline::Model> HttpApi::complete(Context& context, api::Call& call) {
  auto model = parts_.models.find(call.request.model);
  if (!model) {
    reply_error(context, unknown_model(call.request.model));
    return nullptr;
  }
  call.request.id = context.id;
  call.request.client_request_id = client_request_id(context.request.head);
  if (!call.left_out.empty()) {
    parts_.log.info("left out", {{"id", context.id}, {"what", join(call.left_out, ", ")}});
  }
  call.encoder->set_model(model->name);
  return model;
}

void HttpApi::start(Context& context, const api::Dialect& dialect, api::Call call,
                    std::shared_ptr<const pipeline::Model> model, std::unique_ptr<Commit> commit) {
  if (api::is_query_only(call.request.hints)) return serve_query(context, std::move(call), std::move(model));

  Lane& lane = context.lane;
  active_.fetch_add(1);
  RequestNote note{context.id,
                   context.request.head.method,
                   context.request.head.path,
                   call.request.client_request_id,
                   api::shown(call.request.session.key()),
                   context.started,
                   [this, &lane, id = context.id](int status) {
                     lane.answers.erase(id);
                     active_.fetch_sub(1);
                     count(status);
                   }};
  AnswerShape shape{std::move(call.encoder),         call.stream,          call.request.choices, call.request.answers(),
                    call.request.hints.extra_fields, context.caller.admin, std::move(commit)};
  const auto answer = std::make_shared<Answer>(context.exchange, std::move(shape), dialect, lane.dispatcher, parts_.log,
                                               std::move(note));
  lane.answers.emplace(context.id, answer);
  lane.keep_ticking();
  answer->begin();
  lane.dispatcher->start(std::move(call.request), std::move(model), answer);
}

void HttpApi::Lane::keep_ticking() {
  if (std::exchange(ticking, true)) return;
  loop->post_after(kAnswerTick, [weak = weak_from_this()] {
    const auto lane = weak.lock();
    if (!lane) return;
    lane->ticking = false;
    if (lane->answers.empty()) return;
    const TimePoint now = lane->loop->clock().now();
    const auto all = lane->answers;  // what one does may take it out
    for (const auto& [id, held] : all) {
      if (const auto answer = held.lock()) answer->tick(now);
    }
    lane->keep_ticking();
  });
}

void HttpApi::note_client(const Context& context, const ir::Request& request) {
  const auto header = [&](std::string_view name) {
    return std::string(net::find_header(context.request.head.headers, name).value_or(""));
  };
  parts_.log.info("client", {{"id", context.id},
                             {"anthropic_version", header("anthropic-version")},
                             {"anthropic_beta", header("anthropic-beta")},
                             {"metadata", request.metadata}});
}

void HttpApi::serve_query(Context& context, api::Call call, std::shared_ptr<const pipeline::Model> model) {
  const std::size_t bytes = pipeline::prompt_bytes(call.request);
  const std::string_view type = call.stream ? kEventStream : "application/json";
  auto work = [model = std::move(model),
               asked = std::make_shared<api::Call>(std::move(call))]() -> Result<std::string> {
    const auto prepared = pipeline::prepare(asked->request, *model);
    if (!prepared) return prepared.error();
    const engine::GenerateRequest& first = prepared->generate.front();
    asked->encoder->set_extension(api::render_query(model->engine->would_place(first), first.prompt));
    ir::Usage usage;
    usage.prompt_tokens = static_cast<std::uint32_t>(first.prompt.size());
    std::string out;
    for (std::uint32_t choice = 0; choice < asked->request.answers(); ++choice) {
      asked->encoder->add(choice, ir::Start{usage, {}}, out);
      asked->encoder->add(choice, ir::End{ir::FinishReason::kStop, {}, usage}, out);
    }
    return out;
  };
  reply_with(context, bytes, std::move(work), type);
}

void HttpApi::serve_models(Context& context) {
  std::vector<api::ModelEntry> entries;
  for (const auto& model : parts_.models.all()) {
    entries.push_back({model->name, created_.count(), model->context_tokens});
  }
  const bool anthropic = is_anthropic(context.request.head);
  if (context.rest.empty()) {
    auto list = anthropic ? api::render_messages_model_list(entries) : api::render_model_list(entries);
    return reply(context, {200, {}, std::move(list)});
  }
  const std::string asked = percent_decode(context.rest).value_or(context.rest);
  const auto model = parts_.models.find(asked);
  // What the path decodes to may be any bytes; JSON is UTF-8.
  const std::string name = model ? model->name : printable(asked);
  auto one = anthropic ? api::render_messages_model(entries, name) : api::render_model(entries, name);
  if (!one) return reply_error(context, one.error());
  reply(context, {200, {}, std::move(*one)});
}

void HttpApi::serve_tokenize(Context& context) {
  auto call = api::decode_tokenize(context.request.body, parts_.limits);
  if (!call) return reply_error(context, call.error());
  if (auto error = api::check_bounds(call->request, parts_.limits)) return reply_error(context, *error);
  const auto model = parts_.models.find(call->request.model);
  if (!model) return reply_error(context, unknown_model(call->request.model));
  const std::size_t bytes = pipeline::prompt_bytes(call->request);
  call->request.tenant = context.caller.tenant;
  reply_with(context, bytes,
             [model, decoded = std::make_shared<api::TokenizeCall>(std::move(*call))]() -> Result<std::string> {
               Result<Tokens> tokens = Tokens{};
               if (const auto* text = std::get_if<std::string>(&decoded->request.prompt)) {
                 if (auto error = pipeline::check_text("prompt", *model, text->size())) return std::move(*error);
                 tokens = model->tokenizer->encode_text(*text, decoded->add_special_tokens.value_or(true),
                                                        pipeline::cache_namespace(decoded->request));
               } else {
                 tokens = pipeline::prompt_tokens(decoded->request, *model);
               }
               if (!tokens) return std::move(tokens).error();
               std::vector<std::string> pieces;
               if (decoded->return_token_strs) {
                 for (const TokenId token : *tokens) pieces.push_back(model->tokenizer->piece(token, true));
               }
               return api::render_tokenize(*tokens, model->context_tokens,
                                           decoded->return_token_strs ? &pieces : nullptr);
             });
}

void HttpApi::serve_count_tokens(Context& context) {
  auto request = api::decode_count_tokens(context.request.body, parts_.limits, context.id);
  if (!request) return reply_error(context, request.error());
  if (auto error = api::check_bounds(*request, parts_.limits)) return reply_error(context, *error);
  const auto model = parts_.models.find(request->model);
  if (!model) return reply_error(context, unknown_model(request->model));
  const std::size_t bytes = pipeline::prompt_bytes(*request);
  request->tenant = context.caller.tenant;
  reply_with(context, bytes,
             [model, decoded = std::make_shared<ir::Request>(std::move(*request))]() -> Result<std::string> {
               const auto tokens = pipeline::prompt_tokens(*decoded, *model);
               if (!tokens) return tokens.error();
               return api::render_count_tokens(tokens->size());
             });
}

void HttpApi::reply_with(Context& context, std::size_t bytes, std::function<Result<std::string>()> work,
                         std::string_view content_type) {
  const auto finish = [this, content_type](Context& done, Result<std::string> result) {
    if (!result) return reply_error(done, result.error());
    net::Response response;
    response.headers = answer_headers(done.id, content_type);
    response.body = *std::move(result);
    count(200);
    done.exchange->respond(std::move(response));
  };
  if (bytes <= kInlineBytesMax) return finish(context, work());
  // An exchange never leaves its loop: the pool knows the request by its id only.
  const RequestId id = context.id;
  Lane& lane = context.lane;
  context.request.body = {};
  lane.tokenizing.emplace(id, std::move(context));
  active_.fetch_add(1);
  const bool taken = parts_.pool.try_run([this, &lane, id, work = std::move(work), finish] {
    auto result = std::make_shared<Result<std::string>>(work());
    lane.loop->post([this, &lane, id, result, finish] {
      auto done = lane.tokenizing.extract(id);
      finish(done.mapped(), std::move(*result));
      active_.fetch_sub(1);
    });
  });
  if (!taken) {
    active_.fetch_sub(1);
    auto refused = lane.tokenizing.extract(id);
    reply_error(refused.mapped(), fail(ErrorCode::kOverloaded, "Too many prompts wait to be tokenised."));
  }
}

void HttpApi::serve_detokenize(Context& context) {
  auto call = api::decode_detokenize(context.request.body, parts_.limits);
  if (!call) return reply_error(context, call.error());
  const auto model = parts_.models.find(call->model);
  if (!model) return reply_error(context, unknown_model(call->model));
  std::string text;
  prompt::Detokenizer detokenizer(*model->tokenizer, true);
  for (const TokenId token : call->tokens) {
    if (!model->tokenizer->in_range(token)) {
      return reply_error(context, invalid("tokens", fmt::format("token id {} is outside the vocabulary (0 to {})",
                                                                token, model->tokenizer->size() - 1)));
    }
    detokenizer.add(token, text);
  }
  detokenizer.finish(text);
  reply(context, {200, {}, api::render_detokenize(text)});
}

void HttpApi::fail_all() {
  for (const auto& run : runs_.all()) run->fail_on_loop(draining_error());
  for (const auto& lane : lanes_) {
    lane->loop->post([lane = lane.get()] {
      const auto answers = lane->answers;  // ending one takes it out of the map
      for (const auto& [id, weak] : answers) {
        const auto answer = weak.lock();
        lane->dispatcher->cancel(id);
        if (answer) answer->fail(draining_error());
      }
    });
  }
}

}  // namespace kvern::app
