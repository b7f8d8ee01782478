// The HTTP side of `kvern serve`: guards, routing by api/registry, and for each service the way from a request to an
// answer. One object serves all loops; what belongs to a loop (its dispatcher, its answers) is found by the exchange.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/dialect.h"
#include "api/limits.h"
#include "api/registry.h"
#include "api/responses/responses.h"
#include "app/answer.h"
#include "app/background_run.h"
#include "app/guard.h"
#include "app/keys.h"
#include "app/service.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "base/seal.h"
#include "base/worker_pool.h"
#include "net/http_server.h"
#include "pipeline/dispatcher.h"
#include "pipeline/model.h"
#include "pipeline/response_store.h"

namespace kvern::app {

struct HttpApiParts {
  const Clock& clock;
  Log& log;
  Metrics& metrics;
  WorkerPool& pool;
  const pipeline::ModelSet& models;
  api::Limits limits;
  GuardOptions guards;
  const Keys& keys;
  std::vector<net::Loop*> loops;
  const Seal& seal;
  api::ReasoningEvents reasoning_events;
  pipeline::ResponseStore* store = nullptr;  // of responses; nullptr: none are stored
  std::size_t background_max = 64;
};

class HttpApi final : public Service {
 public:
  explicit HttpApi(HttpApiParts parts);
  ~HttpApi() override;

  std::optional<net::Response> admit(const net::RequestHead& head) override;
  void serve(net::Request request, std::shared_ptr<net::Exchange> exchange) override;
  net::Response refuse(int status, std::string_view reason, const net::RequestHead& head) override;

  void drain() override { draining_.store(true); }
  std::size_t active() const override { return active_.load(); }
  void fail_all() override;

 private:
  /// What belongs to one loop; used only there.
  struct Lane;
  struct Context {
    net::Request request;
    std::shared_ptr<net::Exchange> exchange;
    RequestId id;
    TimePoint started;
    std::string rest;  // what the "*" or "{id}" of the route stood for
    Caller caller;
    Lane& lane;
  };

  Lane& lane_of(net::Exchange& exchange);
  RequestId mint();
  void reply(Context& context, api::Reply reply);
  void reply_error(Context& context, const Error& error);
  void serve_generation(Context& context, const api::Dialect& dialect);
  /// What the request knows beside its body; nullptr, and answered, where its model is unknown.
  std::shared_ptr<const pipeline::Model> complete(Context& context, api::Call& call);
  void start(Context& context, const api::Dialect& dialect, api::Call call,
             std::shared_ptr<const pipeline::Model> model, std::unique_ptr<Commit> commit);

  // http_responses.cc: what has to do with stored responses.
  using DecodeResponses = Result<api::ResponsesCall> (api::ResponsesDialect::*)(std::string_view,
                                                                                const api::DecodeContext&,
                                                                                const api::ResponsesHistory*) const;
  void serve_responses(Context& context, DecodeResponses decode);
  void serve_response(Context& context);
  void serve_input_items(Context& context);
  void serve_cancel(Context& context);
  /// Gathers what `needs` names, then decodes again.
  struct Gathering;
  void gather(Context& context, DecodeResponses decode, const api::ResponsesNeeds& needs);
  void gather_next(const std::shared_ptr<Gathering>& gathering);
  void decode_with(Context& context, DecodeResponses decode, const api::ResponsesHistory* history);
  void start_responses(Context& context, api::ResponsesCall call);
  void start_background(Context& context, api::ResponsesCall call, const std::shared_ptr<const pipeline::Model>& model);
  void follow(Context& context, std::shared_ptr<BackgroundRun> run, std::uint64_t from);
  void stream_response(Context& context, RequestId id);
  /// Takes a request to the store, and back to its loop: `then` has it again, with the answer.
  template <typename T>
  std::function<void(Result<T>)> park(Context& context, std::function<void(Context&, Result<T>)> then);
  void reply_event_stream(Context& context, std::string events);
  /// Answers which worker would run the request, and with its prompt's tokens; runs nothing.
  void serve_query(Context& context, api::Call call, std::shared_ptr<const pipeline::Model> model);
  void serve_models(Context& context);
  void serve_tokenize(Context& context);
  void serve_count_tokens(Context& context);
  /// What a Messages client says of itself: logged, without effect on the answer.
  void note_client(const Context& context, const ir::Request& request);
  /// Runs CPU work on a prompt of about so many bytes here or on the pool, and answers with what it gives or its error.
  void reply_with(Context& context, std::size_t bytes, std::function<Result<std::string>()> work,
                  std::string_view content_type = "application/json");
  /// The dialect in which whoever sent this expects an error.
  const api::Dialect& dialect_of(const net::RequestHead& head) const;
  void serve_detokenize(Context& context);
  bool ready() const;
  Error unknown_model(std::string_view name) const;
  void count(int status);

  const HttpApiParts parts_;
  const std::unique_ptr<const api::Dialect> chat_;
  const std::unique_ptr<const api::Dialect> completions_;
  const std::unique_ptr<const api::ResponsesDialect> responses_dialect_;
  const std::unique_ptr<const api::Dialect> messages_;
  const std::chrono::seconds created_;
  std::unordered_map<int, prometheus::Counter*> responses_;  // by status
  std::unique_ptr<pipeline::PipelineMetrics> pipeline_metrics_;
  BackgroundRuns runs_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::unordered_map<const net::Loop*, Lane*> lane_by_loop_;
  std::atomic<bool> draining_{false};
  std::atomic<std::size_t> active_{0};
  std::atomic<std::uint64_t> id_counter_;
};

}  // namespace kvern::app
