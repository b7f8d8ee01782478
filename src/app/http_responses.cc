// HttpApi, the part that has to do with stored responses. A request that needs the store leaves its loop only as a
// question: itself it waits in its lane, and goes on when the answer comes home.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "api/decode_call.h"
#include "api/extension.h"
#include "api/responses/input_items.h"
#include "api/responses/response_ids.h"
#include "app/http_lane.h"
#include "app/query.h"

namespace kvern::app {
namespace {

/// Stores an answer before its end leaves.
class StoreAnswer final : public Commit {
 public:
  StoreAnswer(pipeline::ResponseStore& store, net::Loop& loop, api::ResponsesEncoder& encoder,
              pipeline::StoredResponse record)
      : store_(store), loop_(loop), encoder_(encoder), record_(std::move(record)) {}

  void commit(std::function<void(Result<void>)> done) override {
    encoder_.append_object(record_.answer);
    store_.put(std::move(record_), loop_, std::move(done));
  }
  void withdraw(const Error& error, std::string& out) override { encoder_.withdraw(error, out); }

 private:
  pipeline::ResponseStore& store_;
  net::Loop& loop_;
  api::ResponsesEncoder& encoder_;  // of the answer that this belongs to
  pipeline::StoredResponse record_;
};

/// A compaction is stored nowhere, but without a summary it is none.
class CheckSummary final : public Commit {
 public:
  explicit CheckSummary(api::ResponsesEncoder& encoder) : encoder_(encoder) {}
  void commit(std::function<void(Result<void>)> done) override {
    std::string object;
    encoder_.append_object(object);
    if (!object.empty()) return done({});
    done(fail(ErrorCode::kEngine, "The model wrote no summary of this conversation."));
  }
  void withdraw(const Error& error, std::string& out) override { encoder_.withdraw(error, out); }

 private:
  api::ResponsesEncoder& encoder_;
};

/// `starting_after=N`: the number of the first event to send. An error where that is no number.
Result<std::uint64_t> first_wanted(std::string_view query) {
  const auto text = query_value(query, "starting_after");
  if (!text) return 0;
  std::uint64_t after = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), after);
  if (fault != std::errc{} || end != text->data() + text->size() || after >= 1ULL << 62U) {
    return invalid("starting_after", "`starting_after` is the number of an event");
  }
  return after + 1;
}

Error events_gone(std::uint64_t first) {
  return invalid("starting_after", "The events up to number " + std::to_string(first - 1) +
                                       " are kept no longer. Without `stream` the whole response can be read.");
}

bool wants_stream(std::string_view query) { return query_value(query, "stream").value_or("false") == "true"; }

}  // namespace

template <typename T>
std::function<void(Result<T>)> HttpApi::park(Context& context, std::function<void(Context&, Result<T>)> then) {
  const RequestId id = context.id;
  Lane& lane = context.lane;
  lane.at_store.emplace(id, std::move(context));
  active_.fetch_add(1);
  return [this, &lane, id, then = std::move(then)](Result<T> found) {
    auto back = lane.at_store.extract(id);
    if (back.empty()) return;
    then(back.mapped(), std::move(found));
    active_.fetch_sub(1);
  };
}

/// What is looked up, one after the other, for one request.
struct HttpApi::Gathering {
  DecodeResponses decode;
  std::string tenant;
  api::ResponsesNeeds needs;
  api::ResponsesHistory history;
  Lane& lane;
  RequestId id;
  std::function<void(Result<void>)> done;
};

void HttpApi::serve_responses(Context& context, DecodeResponses decode) {
  static const api::ResponsesHistory kNone;
  decode_with(context, decode, parts_.store == nullptr ? &kNone : nullptr);
}

void HttpApi::decode_with(Context& context, DecodeResponses decode, const api::ResponsesHistory* history) {
  const Caller& caller = context.caller;
  api::DecodeContext decode_context{context.id, parts_.clock.unix_time()};
  decode_context.tenant = caller.tenant;
  auto call = (*responses_dialect_.*decode)(context.request.body, decode_context, history);
  if (!call) return reply_error(context, call.error());
  if (!call->needs.empty()) return gather(context, decode, call->needs);
  context.request.body = {};
  const auto& headers = context.request.head.headers;
  if (auto error = api::settle_call(call->call, headers, decode_context, parts_.limits, caller.admin)) {
    return reply_error(context, *error);
  }
  start_responses(context, *std::move(call));
}

void HttpApi::gather(Context& context, DecodeResponses decode, const api::ResponsesNeeds& needs) {
  const std::string tenant = context.caller.tenant;
  if (needs.previous && runs_.find(tenant, *needs.previous)) {
    return reply_error(context, invalid("previous_response_id", "`previous_response_id` is still in progress"));
  }
  auto gathering = std::make_shared<Gathering>(Gathering{decode, tenant, needs, {}, context.lane, context.id, {}});
  const std::weak_ptr<Gathering> weak = gathering;  // it holds the callback that ends it
  gathering->done = park<void>(context, [this, weak](Context& back, const Result<void>& gathered) {
    const auto all = weak.lock();
    if (!gathered) return reply_error(back, gathered.error());
    decode_with(back, all->decode, &all->history);
  });
  if (!needs.previous) return gather_next(gathering);
  parts_.store->history(tenant, *needs.previous, parts_.limits[api::Limit::kBodyBytes], *gathering->lane.loop,
                        [this, gathering](Result<std::vector<pipeline::StoredResponse>> found) {
                          // What is not found the decoder says, in the words of the API.
                          if (!found && found.error().code != ErrorCode::kNotFound) {
                            return gathering->done(found.error());
                          }
                          if (found) {
                            for (auto& turn : *found) {
                              gathering->history.turns.push_back({std::move(turn.input), std::move(turn.answer)});
                            }
                          }
                          gather_next(gathering);
                        });
}

void HttpApi::gather_next(const std::shared_ptr<Gathering>& gathering) {
  if (gathering->needs.references.empty()) return gathering->done({});
  const RequestId next = gathering->needs.references.back();
  gathering->needs.references.pop_back();
  parts_.store->find(gathering->tenant, next, *gathering->lane.loop,
                     [this, gathering](Result<pipeline::StoredResponse> found) {
                       if (!found && found.error().code != ErrorCode::kNotFound) {
                         return gathering->done(found.error());
                       }
                       if (found) {
                         gathering->history.referenced.push_back({std::move(found->input), std::move(found->answer)});
                       }
                       gather_next(gathering);
                     });
}

void HttpApi::start_responses(Context& context, api::ResponsesCall call) {
  const auto model = complete(context, call.call);
  if (!model) return;
  if ((call.state.background || call.state.compacts) && api::is_query_only(call.call.request.hints)) {
    const std::string_view what = call.state.compacts ? "A compaction" : "`background`";
    return reply_error(context,
                       invalid("nvext.annotations", fmt::format("{} does not go with a query for a worker", what)));
  }
  if (call.state.background) return start_background(context, std::move(call), model);
  std::unique_ptr<Commit> commit;
  if (call.state.store) {
    pipeline::StoredResponse record{
        context.id, call.call.request.tenant, call.state.previous, false, std::move(call.input), {}, {}, 0};
    commit = std::make_unique<StoreAnswer>(*parts_.store, *context.lane.loop, *call.encoder, std::move(record));
  } else if (call.state.compacts) {
    commit = std::make_unique<CheckSummary>(*call.encoder);
  }
  start(context, *responses_dialect_, std::move(call.call), model, std::move(commit));
}

void HttpApi::start_background(Context& context, api::ResponsesCall call,
                               const std::shared_ptr<const pipeline::Model>& model) {
  Lane& lane = context.lane;
  const RequestId id = context.id;
  pipeline::StoredResponse record{
      id, call.call.request.tenant, call.state.previous, true, std::move(call.input), {}, {}, 0};
  auto run = std::make_shared<BackgroundRun>(
      std::move(call.call.encoder), *call.encoder, std::move(record),
      BackgroundParts{*lane.loop, lane.dispatcher, *parts_.store, parts_.log, [this, id] {
                        runs_.remove(id);
                        active_.fetch_sub(1);
                      }});
  if (auto added = runs_.add(run); !added) return reply_error(context, added.error());
  active_.fetch_add(1);
  auto request = std::make_shared<ir::Request>(std::move(call.call.request));
  auto done = park<void>(
      context, [this, run, request, model, stream = call.call.stream](Context& back, const Result<void>& stored) {
        if (!stored) {
          run->give_up();
          return reply_error(back, stored.error());
        }
        if (run->running()) {
          run->begin();
          back.lane.dispatcher->start(std::move(*request), model, run);
        }
        if (stream) return follow(back, run, run->first_event());  // a request may be too large for its first events
        reply(back, {200, {}, run->object()});
      });
  parts_.store->put(run->as_lost(), *lane.loop, std::move(done));
}

void HttpApi::follow(Context& context, std::shared_ptr<BackgroundRun> run, std::uint64_t from) {
  if (from < run->first_event()) return reply_error(context, events_gone(run->first_event()));
  Lane& lane = context.lane;
  const RequestId id = context.id;
  const auto follower =
      std::make_shared<Follower>(id, context.exchange, std::move(run), from, [this, &lane, id](int status) {
        lane.followers.erase(id);
        active_.fetch_sub(1);
        count(status);
      });
  lane.followers.emplace(id, follower);
  active_.fetch_add(1);
  follower->begin(stream_headers(id), [&lane, id] {
    lane.loop->post([&lane, id] {
      const auto found = lane.followers.find(id);
      if (found == lane.followers.end()) return;
      const auto held = found->second;  // it may take itself out of the map
      held->pull();
    });
  });
}

void HttpApi::serve_response(Context& context) {
  const std::string tenant = context.caller.tenant;  // the context may leave
  const auto id = api::parse_response_name(context.rest);
  if (!id || parts_.store == nullptr) return reply_error(context, pipeline::response_not_found());
  const auto run = runs_.find(tenant, *id);
  if (context.request.head.method == "DELETE") {
    auto erased = park<void>(context, [this, id = *id](Context& back, const Result<void>& done) {
      if (!done) return reply_error(back, done.error());
      reply(back, {200, {}, api::render_deleted(id)});
    });
    auto erase = [this, tenant, id = *id, loop = context.lane.loop, erased = std::move(erased)] {
      parts_.store->erase(tenant, id, *loop, erased);
    };
    return run ? run->cancel(std::move(erase)) : erase();
  }
  if (wants_stream(context.request.head.query)) return stream_response(context, *id);
  if (run) return reply(context, {200, {}, run->object()});
  auto found = park<pipeline::StoredResponse>(context, [this](Context& back, Result<pipeline::StoredResponse> stored) {
    if (!stored) return reply_error(back, stored.error());
    reply(back, {200, {}, std::move(stored->answer)});
  });
  parts_.store->find(tenant, *id, *context.lane.loop, std::move(found));
}

void HttpApi::stream_response(Context& context, RequestId id) {
  const std::string tenant = context.caller.tenant;
  const auto wanted = first_wanted(context.request.head.query);
  if (!wanted) return reply_error(context, wanted.error());
  if (auto run = runs_.find(tenant, id)) return follow(context, std::move(run), *wanted);
  auto found = park<pipeline::StoredResponse>(
      context, [this, from = *wanted](Context& back, Result<pipeline::StoredResponse> stored) {
        if (!stored) return reply_error(back, stored.error());
        if (!stored->background) {
          return reply_error(back, invalid("stream",
                                           "Only a response that was made with `background: true` can be "
                                           "streamed again. Read it without `stream`."));
        }
        // It was cut off by the end of a server: all that is left to say is how it ended.
        if (stored->events.empty()) return reply_event_stream(back, api::final_event(stored->answer, from));
        if (from < stored->first_event) return reply_error(back, events_gone(stored->first_event));
        EventLog events(stored->events.size());
        events.append(stored->events);
        std::string out;
        events.read(from - stored->first_event, out);
        reply_event_stream(back, std::move(out));
      });
  parts_.store->find(tenant, id, *context.lane.loop, std::move(found));
}

void HttpApi::reply_event_stream(Context& context, std::string events) {
  net::Response response;
  response.headers = stream_headers(context.id);
  response.body = std::move(events);
  count(200);
  context.exchange->respond(std::move(response));
}

void HttpApi::serve_input_items(Context& context) {
  const std::string tenant = context.caller.tenant;  // the context may leave
  const auto id = api::parse_response_name(context.rest);
  if (!id || parts_.store == nullptr) return reply_error(context, pipeline::response_not_found());
  const auto parameter = [&](std::string_view name) {
    return query_value(context.request.head.query, name).value_or(std::string());
  };
  const auto page = api::decode_list_page(parameter("limit"), parameter("order"), parameter("after"));
  if (!page) return reply_error(context, page.error());
  auto found = park<pipeline::StoredResponse>(
      context, [this, page = *page](Context& back, Result<pipeline::StoredResponse> stored) {
        if (!stored) return reply_error(back, stored.error());
        auto list = api::render_input_items(stored->input, page, parts_.limits);
        if (!list) return reply_error(back, list.error());
        reply(back, {200, {}, *std::move(list)});
      });
  parts_.store->find(tenant, *id, *context.lane.loop, std::move(found));
}

void HttpApi::serve_cancel(Context& context) {
  const std::string tenant = context.caller.tenant;  // the context may leave
  const auto id = api::parse_response_name(context.rest);
  if (!id || parts_.store == nullptr) return reply_error(context, pipeline::response_not_found());
  // Of one that is over, this is what it ended as: cancelling twice is the same as once.
  auto found = park<pipeline::StoredResponse>(context, [this](Context& back, Result<pipeline::StoredResponse> stored) {
    if (!stored) return reply_error(back, stored.error());
    if (!stored->background) {
      return reply_error(back, fail(ErrorCode::kInvalidRequest,
                                    "Only a response that was made with `background: true` can be cancelled. To end "
                                    "another, close its connection."));
    }
    reply(back, {200, {}, std::move(stored->answer)});
  });
  auto look = [this, tenant, id = *id, loop = context.lane.loop, found = std::move(found)] {
    parts_.store->find(tenant, id, *loop, found);
  };
  const auto run = runs_.find(tenant, *id);
  run ? run->cancel(std::move(look)) : look();
}

}  // namespace kvern::app
