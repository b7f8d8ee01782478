// A worker's share of one event loop: its pooled connections and the requests that run over them.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/vllm/worker_state.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace kvern::engine {

/// Used on its loop only, unless stated; destroyed there, or when the loop has stopped.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  /// `probe_soon` is called when a request failed by the worker's fault. `loop` and `state` outlive the lane.
  Lane(net::Loop& loop, std::shared_ptr<WorkerState> state, std::function<void()> probe_soon);
  ~Lane();

  net::Loop& loop() const { return loop_; }  // any thread
  net::Client& client() { return *client_; }

  /// The caller has entered the state for it; the lane leaves.
  void submit(const GenerateRequest& request, std::shared_ptr<EventSink> sink);
  /// False when the request is not one of this lane's.
  bool cancel(RequestId id);
  /// Ends every request with `error`.
  void fail_all(const Error& error);
  /// Hands over the events gathered so far. For the end; otherwise a turn's end does it.
  void flush();

 private:
  class Stream;
  struct Batch {
    std::shared_ptr<EventSink> sink;
    std::vector<EngineEvent> events;
  };

  void send(const std::shared_ptr<Stream>& stream, const GenerateRequest& request);
  /// Where events for a sink gather until the end of the turn.
  std::vector<EngineEvent>& events_for(const std::shared_ptr<EventSink>& sink);
  /// The stream's answer is over; `read_on` leaves its connection to come to its end for the next request.
  void retire(Stream& stream, bool read_on);
  void tick();
  void keep_ticking();

  net::Loop& loop_;
  const std::shared_ptr<WorkerState> state_;
  const std::function<void()> probe_soon_;
  std::unique_ptr<net::Client> client_;
  std::unordered_map<RequestId, std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> lingering_;  // over, their connection not yet at its end
  std::vector<Batch> batches_;
  std::unordered_map<const EventSink*, std::size_t> batch_of_;
  bool flushing_ = false;  // asked for
  bool ticking_ = false;
};

}  // namespace kvern::engine
