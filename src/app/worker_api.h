// The HTTP side of `kvern worker`: one model, raw tokens in and out, on vLLM's wire. It stands on the same server,
// guards, limits and engines as `kvern serve`; what is missing is everything between a conversation and its tokens.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/limits.h"
#include "api/vllm_wire/routes.h"
#include "app/guard.h"
#include "app/service.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/worker_pool.h"
#include "pipeline/metrics.h"
#include "pipeline/model.h"

namespace kvern::app {

/// Where a worker publishes its KV events; empty endpoints: nowhere.
struct EventSource {
  std::string endpoint;
  std::string replay_endpoint;
  bool connects = false;  // to a subscriber that binds
};

struct WorkerApiParts {
  const Clock& clock;
  Log& log;
  Metrics& metrics;
  WorkerPool& pool;
  std::shared_ptr<const pipeline::Model> model;
  api::Limits limits;
  GuardOptions guards;
  std::vector<net::Loop*> loops;
  EventSource events;
};

class WorkerApi final : public Service {
 public:
  explicit WorkerApi(WorkerApiParts parts);
  ~WorkerApi() override;

  std::optional<net::Response> admit(const net::RequestHead& head) override;
  void serve(net::Request request, std::shared_ptr<net::Exchange> exchange) override;
  net::Response refuse(int status, std::string_view reason, const net::RequestHead& head) override;
  void drain() override { draining_.store(true); }
  std::size_t active() const override { return active_.load(); }
  void fail_all() override;

 private:
  struct Running;
  class Sink;
  /// What belongs to one loop; used only there.
  struct Lane;
  struct Context {
    net::Request request;
    std::shared_ptr<net::Exchange> exchange;
    RequestId id;
    TimePoint started;
    Lane& lane;
  };

  RequestId mint();
  void reply(const Context& context, int status, std::string body);
  void reply_error(const Context& context, const Error& error);
  void serve_completion(Context& context);
  void serve_tokenize(Context& context);
  void serve_detokenize(Context& context);
  std::string event_sources() const;
  Error unknown_model(const std::string& name) const;
  bool serves(const std::string& name) const;

  void prepared(Lane& lane, RequestId id, Result<engine::GenerateRequest> request);
  void on_engine(Lane& lane, const std::vector<engine::EngineEvent>& events);
  void settle(Lane& lane, RequestId id);
  void fail(Lane& lane, RequestId id, const Error& error);
  void end(Lane& lane, RequestId id, int status, std::string_view why);

  const WorkerApiParts parts_;
  const std::chrono::seconds created_;
  pipeline::PipelineMetrics metrics_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<bool> draining_{false};
  std::atomic<std::size_t> active_{0};
  std::atomic<std::uint64_t> id_counter_;
};

}  // namespace kvern::app
