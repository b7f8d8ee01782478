#include "engine/vllm/lane.h"

#include <algorithm>
#include <utility>

#include "engine/vllm/answer_decoder.h"
#include "engine/vllm/request_body.h"
#include "engine/vllm/worker_error.h"

namespace kvern::engine {
namespace {

constexpr std::size_t kIdleConnectionsMax = 256;
constexpr std::size_t kRefusalBytesMax = 16U << 10U;
/// How exact deadlines are.
constexpr auto kTick = std::chrono::milliseconds(100);
/// After [DONE] only the end of the body is to come.
constexpr auto kLinger = std::chrono::seconds(1);

AnswerDecoderOptions decoder_options(const GenerateRequest& request, const WorkerState& state) {
  const VllmOptions& options = state.options();
  AnswerDecoderOptions out;
  out.id = request.id;
  out.worker = options.name;
  out.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  out.max_tokens = request.max_tokens;
  out.vocab_size = options.info.vocab_size;
  out.logprobs = request.logprobs;
  out.is_end = options.is_end;
  out.tells_cached = state.tells_cached();
  return out;
}

/// Failures that say something about the worker's state, and not only about this request or its load.
bool is_workers_fault(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kEngine || code == ErrorCode::kTimeout;
}

}  // namespace

/// One request on its connection. The lane outlives it.
class Lane::Stream final : public net::ClientCallbacks, public std::enable_shared_from_this<Stream> {
 public:
  Stream(Lane& lane, const GenerateRequest& request, std::shared_ptr<EventSink> sink)
      : id_(request.id),
        lane_(lane),
        sink_(std::move(sink)),
        prompt_tokens_(static_cast<std::uint32_t>(request.prompt.size())),
        begun_(lane.state_->now()),
        decoder_(decoder_options(request, *lane.state_)) {}

  RequestId id() const { return id_; }
  std::uint64_t handle() const { return handle_; }
  const std::shared_ptr<EventSink>& sink() const { return sink_; }
  TimePoint deadline() const { return deadline_; }

  void sent(std::uint64_t handle, TimePoint deadline) {
    handle_ = handle;
    deadline_ = deadline;
    head_ = net::ClientHead();
    refusal_.clear();
    streaming_ = false;
  }
  /// Keeps the request for the case that the worker refuses its priority.
  void keep_for_again(const GenerateRequest& request) { again_ = std::make_unique<GenerateRequest>(request); }

  /// Its deadline has passed.
  void time_out() {
    if (decoder_.over()) return;
    Error error = kvern::fail(ErrorCode::kTimeout, "The worker sends no tokens.");
    blame(error);
    fail(std::move(error));
  }

  /// Breaks it off from outside.
  void fail(Error error) {
    if (decoder_.over()) return;
    decoder_.fail(std::move(error), lane_.events_for(sink_));
    lane_.retire(*this, false);
  }

  void linger_until(TimePoint deadline) { deadline_ = deadline; }

  void on_head(const net::ClientHead& head) override {
    const auto type = net::find_header(head.headers, "content-type");
    streaming_ = head.status == 200 && type && type->starts_with("text/event-stream");
    head_.status = head.status;
    if (!streaming_) head_.headers = head.headers;  // they may say why, and for how long
  }

  void on_body(std::string_view bytes) override {
    if (!streaming_) {
      refusal_ += bytes.substr(0, kRefusalBytesMax - std::min(refusal_.size(), kRefusalBytesMax));
      return;
    }
    const TimePoint now = lane_.state_->now();
    lane_.state_->heard(now);
    if (decoder_.over()) return;
    const bool had_begun = decoder_.began();
    const std::uint32_t had = decoder_.tokens();
    decoder_.feed(bytes, lane_.events_for(sink_));
    lane_.state_->count_tokens(decoder_.tokens() - had);
    // Only tokens move the deadline: events without any, and comments, could keep a client waiting for ever.
    if (decoder_.tokens() > had) deadline_ = now + lane_.state_->options().deadlines.between_tokens;
    if (decoder_.began() && !had_begun) {
      again_.reset();
      lane_.state_->returns_token_ids(true);
    }
    if (decoder_.over()) settle();
  }

  void on_end(Result<void> result) override {
    const auto self = shared_from_this();  // retiring lets go of it
    if (decoder_.over()) return lane_.retire(*this, false);
    if (!result) {
      Error error = result.error();
      if (error.code == ErrorCode::kUnavailable) lane_.state_->unreachable();
      // However a connection broke, the answer is lost, as with a worker that gives no sign of life: one may ask again.
      if (error.code == ErrorCode::kEngine) error.code = ErrorCode::kUnavailable;
      decoder_.fail(std::move(error), lane_.events_for(sink_));
    } else if (streaming_) {
      decoder_.end(lane_.events_for(sink_));
    } else {
      Refusal refusal = read_refusal(head_.status, head_.headers, refusal_);
      log(refusal.type, refusal.param);
      if (refusal.priority_refused && again_) return send_again();
      decoder_.fail(std::move(refusal.error), lane_.events_for(sink_));
      failure_is_load_ = head_.status == 429;
    }
    settle();
  }

 private:
  /// The answer is over by what came of the worker.
  void settle() {
    const auto self = shared_from_this();
    if (!decoder_.failed()) {
      lane_.state_->succeeded(prompt_tokens_, decoder_.cached_tokens());
      return lane_.retire(*this, true);
    }
    if (!decoder_.error_type().empty()) log(loggable_word(decoder_.error_type()), {});
    const auto& events = lane_.events_for(sink_);
    const auto* failed = events.empty() ? nullptr : std::get_if<Failed>(&events.back().body);
    if (failed != nullptr && is_workers_fault(failed->error.code) && !failure_is_load_) {
      blame(failed->error);
    }
    lane_.retire(*this, false);
  }

  /// It failed by the worker's fault.
  void blame(const Error& error) {
    lane_.state_->failed(begun_);
    lane_.state_->log().warn("worker failed", {{"worker", lane_.state_->options().name},
                                               {"id", id_},
                                               {"error", to_string(error.code)},
                                               {"tokens", decoder_.tokens()},
                                               {"reason", error.message}});
    lane_.probe_soon_();
  }

  void send_again() {
    lane_.state_->refuses_priority();
    lane_.state_->log().warn(
        "worker takes no priorities: start it with --scheduling-policy priority; requests go without from here on",
        {{"worker", lane_.state_->options().name}});
    const auto request = std::move(again_);
    lane_.send(shared_from_this(), *request);
  }

  /// Never the worker's own text: see worker_error.h.
  void log(std::string_view type, std::string_view param) const {
    lane_.state_->log().warn("worker says", {{"worker", lane_.state_->options().name},
                                             {"id", id_},
                                             {"status", head_.status},
                                             {"type", type},
                                             {"param", param}});
  }

  const RequestId id_;
  Lane& lane_;
  const std::shared_ptr<EventSink> sink_;
  const std::uint32_t prompt_tokens_;
  const TimePoint begun_;
  AnswerDecoder decoder_;
  std::unique_ptr<GenerateRequest> again_;
  std::uint64_t handle_ = 0;
  TimePoint deadline_;
  net::ClientHead head_;
  std::string refusal_;
  bool streaming_ = false;
  bool failure_is_load_ = false;
};

Lane::Lane(net::Loop& loop, std::shared_ptr<WorkerState> state, std::function<void()> probe_soon)
    : loop_(loop),
      state_(std::move(state)),
      probe_soon_(std::move(probe_soon)),
      client_(net::Client::create(loop, kIdleConnectionsMax)) {}

Lane::~Lane() = default;

void Lane::submit(const GenerateRequest& request, std::shared_ptr<EventSink> sink) {
  const auto stream = std::make_shared<Stream>(*this, request, std::move(sink));
  if (!streams_.emplace(request.id, stream).second) {
    // Two requests of one id: the caller's bug, but not one to end the process over.
    state_->leave();
    events_for(stream->sink()).push_back({request.id, Failed{kvern::fail(ErrorCode::kInternal, "id in use")}});
    return;
  }
  if (request.priority != 0 && state_->takes_priority()) stream->keep_for_again(request);
  send(stream, request);
  keep_ticking();
}

void Lane::send(const std::shared_ptr<Stream>& stream, const GenerateRequest& request) {
  const VllmOptions& options = state_->options();
  auto call = request_to(options.address, "POST", "/v1/completions",
                         completion_body(request, options.model, state_->takes_priority()));
  call.headers.emplace_back("accept", "text/event-stream");
  call.headers.emplace_back("x-request-id", to_string(request.id));
  call.headers.emplace_back(kEarlyUsageHeader, "1");
  if (request.worker_rank) call.headers.emplace_back("x-data-parallel-rank", std::to_string(*request.worker_rank));
  call.connect_deadline = options.deadlines.connect;
  // The lane keeps the deadlines of tokens; these only stand behind them.
  const auto longest = std::max(options.deadlines.first_token, options.deadlines.between_tokens);
  call.first_byte_deadline = longest + std::chrono::seconds(5);
  call.between_deadline = longest + std::chrono::seconds(5);
  call.body_bytes_max = answer_bytes_max(request);
  call.peer_sends_at_once = true;  // so do uvicorn, which serves vLLM, and kvern
  const TimePoint deadline = state_->now() + options.deadlines.first_token;  // connecting included
  stream->sent(client_->send(std::move(call), stream), deadline);
}

bool Lane::cancel(RequestId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return false;
  client_->cancel(found->second->handle());
  streams_.erase(found);
  state_->leave();
  return true;
}

void Lane::fail_all(const Error& error) {
  const auto streams = streams_;  // failing takes them out
  for (const auto& [id, stream] : streams) stream->fail(error);
}

void Lane::retire(Stream& stream, bool read_on) {
  const auto found = streams_.find(stream.id());
  if (found != streams_.end() && found->second.get() == &stream) {
    if (read_on) {
      stream.linger_until(state_->now() + kLinger);
      lingering_.push_back(found->second);
    }
    streams_.erase(found);
    state_->leave();
    if (!read_on) client_->cancel(stream.handle());
    return;
  }
  std::erase_if(lingering_, [&stream](const auto& held) { return held.get() == &stream; });
  client_->cancel(stream.handle());  // of no effect when its end brought us here
}

std::vector<EngineEvent>& Lane::events_for(const std::shared_ptr<EventSink>& sink) {
  if (!flushing_) {
    flushing_ = true;
    loop_.after_turn([weak = weak_from_this()] {
      if (const auto lane = weak.lock()) lane->flush();
    });
  }
  if (!batches_.empty() && batches_.back().sink == sink) return batches_.back().events;
  const auto [slot, is_new] = batch_of_.try_emplace(sink.get(), batches_.size());
  if (is_new) batches_.push_back({sink, {}});
  return batches_[slot->second].events;
}

void Lane::flush() {
  flushing_ = false;
  auto batches = std::move(batches_);
  batches_.clear();
  batch_of_.clear();
  for (auto& batch : batches) {
    if (!batch.events.empty()) batch.sink->on_events(std::move(batch.events));
  }
}

void Lane::keep_ticking() {
  if (ticking_) return;
  ticking_ = true;
  loop_.post_after(kTick, [weak = weak_from_this()] {
    if (const auto lane = weak.lock()) lane->tick();
  });
}

void Lane::tick() {
  ticking_ = false;
  const TimePoint now = state_->now();
  std::vector<std::shared_ptr<Stream>> late;
  for (const auto& [id, stream] : streams_) {
    if (stream->deadline() <= now) late.push_back(stream);
  }
  for (const auto& stream : late) stream->time_out();
  std::erase_if(lingering_, [&](const auto& stream) {
    if (stream->deadline() > now) return false;
    client_->cancel(stream->handle());
    return true;
  });
  if (!streams_.empty() || !lingering_.empty()) keep_ticking();
}

}  // namespace kvern::engine
