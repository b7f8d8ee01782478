#include "engine/events/subscriber.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/events/endpoint.h"
#include "engine/events/frames.h"
#include "engine/events/zmq_socket.h"

namespace kvern::engine::events {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kEventsName = "events";
constexpr std::string_view kReplayName = "replay";
constexpr std::size_t kFramesMax = 4;
constexpr std::size_t kMonitorFrames = 2;
constexpr int kMessagesPerTurn = 256;  // of one socket, before the others are looked at
constexpr int kHeartbeatMs = 10'000;
constexpr int kHeartbeatTimeoutMs = 30'000;  // silent for so long, a peer counts as gone
constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 5000;
constexpr std::chrono::milliseconds kReconnectGrace{200};
constexpr const char* kMonitorEndpoint = "inproc://connections";

/// Updates on their way to the consumer. Bounded by asking has_room() first; one step may then add what was held.
class UpdateQueue {
 public:
  UpdateQueue(std::size_t updates_max, std::size_t bytes_max) : updates_max_(updates_max), bytes_max_(bytes_max) {}

  /// True when it was empty.
  bool push(Update update, std::size_t bytes) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = items_.empty();
      items_.push_back(Item{std::move(update), bytes});
      bytes_ += bytes;
    }
    ready_.notify_one();
    return was_empty;
  }

  /// `has_room_again` says whether the thread may be waiting for that.
  std::optional<Update> pop(std::chrono::milliseconds patience, bool& has_room_again) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, patience, [this] { return !items_.empty(); })) return std::nullopt;
    const bool was_full = full();
    Item item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item.bytes;
    has_room_again = was_full && !full();
    return std::move(item.update);
  }

  bool has_room() const {
    const std::lock_guard lock(mutex_);
    return !full();
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  struct Item {
    Update update;
    std::size_t bytes = 0;
  };
  bool full() const { return items_.size() >= updates_max_ || bytes_ >= bytes_max_; }

  const std::size_t updates_max_;
  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Item> items_;  // guarded by mutex_
  std::size_t bytes_ = 0;   // guarded by mutex_
};

TrackerOptions tracking(const SubscriberOptions& options) {
  TrackerOptions tracking = options.tracking;
  tracking.replay = !options.replay_endpoint.empty();
  return tracking;
}

class ZmqSubscriber final : public Subscriber {
 public:
  explicit ZmqSubscriber(const SubscriberOptions& options)
      : options_(options),
        updates_(options.updates_max, options.update_bytes_max),
        sub_(context_, zmq::socket_type::sub),
        monitor_(context_, zmq::socket_type::pair),
        tracker_(tracking(options)) {}

  ~ZmqSubscriber() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wakeup_.signal();
    if (thread_.joinable()) thread_.join();
    // ZeroMQ would wait for ever to tell of a connection that ends when nobody listens any more.
    zmq_socket_monitor(sub_.handle(), nullptr, 0);
  }

  Result<void> open() {
    if (auto fits = check_endpoint(options_.endpoint, options_.bind, kEventsName); !fits) return fits;
    if (!options_.replay_endpoint.empty()) {
      if (auto fits = check_endpoint(options_.replay_endpoint, false, kReplayName); !fits) return fits;
    }
    prepare(sub_, options_.endpoint);
    sub_.set(ZMQ_SUBSCRIBE, options_.topic);
    constexpr int kFailures =
        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    constexpr int kEvents =
        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED | kFailures;
    if (zmq_socket_monitor(sub_.handle(), kMonitorEndpoint, kEvents) != 0 || monitor_.connect(kMonitorEndpoint) != 0) {
      return fail(ErrorCode::kUnavailable, "connections of the events socket cannot be watched");
    }
    const int error = options_.bind ? sub_.bind(options_.endpoint) : sub_.connect(options_.endpoint);
    if (error != 0) return endpoint_error(error, options_.endpoint, options_.bind, kEventsName);
    endpoint_ = options_.bind ? sub_.last_endpoint() : options_.endpoint;
    thread_ = std::thread([this] { run(); });
    return {};
  }

  const std::string& endpoint() const override { return endpoint_; }

  std::optional<Update> next(std::chrono::milliseconds patience) override {
    bool has_room_again = false;
    auto update = updates_.pop(patience, has_room_again);
    if (has_room_again) wakeup_.signal();
    return update;
  }

  SubscriberStats stats() const override {
    SubscriberStats stats;
    {
      const std::lock_guard lock(mutex_);
      stats = stats_;
    }
    stats.waiting = updates_.size();
    return stats;
  }

 private:
  void prepare(ZmqSocket& socket, const std::string& endpoint) const {
    socket.set(ZMQ_LINGER, 0);
    socket.set(ZMQ_RCVHWM, std::max(1, options_.unread_messages_max));
    socket.set(ZMQ_MAXMSGSIZE, static_cast<std::int64_t>(options_.message_bytes_max));
    socket.set(ZMQ_HEARTBEAT_IVL, kHeartbeatMs);
    socket.set(ZMQ_HEARTBEAT_TIMEOUT, kHeartbeatTimeoutMs);
    socket.set(ZMQ_RECONNECT_IVL, kReconnectMs);
    socket.set(ZMQ_RECONNECT_IVL_MAX, kReconnectMaxMs);
    if (endpoint.find('[') != std::string::npos) socket.set(ZMQ_IPV6, 1);
  }

  // --- The thread ---------------------------------------------------------------------------------------------------

  void run() {
    act([this](auto now, auto& actions) { tracker_.start(now, actions); });
    for (bool stopping = false; !stopping;) {
      wait();
      wakeup_.drain();
      // Connections first: a message that comes over a new one must not be taken for the old publisher's.
      read_monitor();
      reconnect();
      const bool more_live = read_live();
      const bool more_replay = read_replay();
      const bool idle = !more_live && !more_replay;
      // While the consumer is behind nothing is read, and no answer is late.
      if (idle && updates_.has_room() && steady_clock::now() >= tracker_.deadline()) step(Tick{});
      const std::lock_guard lock(mutex_);
      counts_.stream = tracker_.stats();
      counts_.incarnation = tracker_.incarnation();
      counts_.next_sequence = tracker_.next();
      stats_ = counts_;
      stopping = stopping_;
    }
  }

  void wait() {
    std::array<zmq_pollitem_t, 4> items{};
    std::size_t count = 0;
    items[count].fd = wakeup_.descriptor();
    items[count++].events = ZMQ_POLLIN;
    items[count].socket = monitor_.handle();
    items[count++].events = ZMQ_POLLIN;
    TimePoint deadline = TimePoint::max();
    if (updates_.has_room()) {
      items[count].socket = sub_.handle();
      items[count++].events = ZMQ_POLLIN;
      if (replay_) items[count].socket = replay_->handle();
      if (replay_) items[count++].events = ZMQ_POLLIN;
      deadline = tracker_.deadline();
    }
    deadline = std::min(deadline, reconnect_at_);
    wait_for_any(std::span(items).first(count), steady_clock::now(), deadline);
  }

  void read_monitor() {
    std::vector<std::string> frames;
    while (monitor_.receive(frames, kMonitorFrames) == ZmqSocket::Received::kMessage) {
      // The event's number is the first 16 bits, in this machine's order (zmq_socket_monitor(3)).
      if (frames.empty() || frames[0].size() < 2) continue;
      std::uint16_t event = 0;
      frames[0].copy(reinterpret_cast<char*>(&event), sizeof event);
      connection_event(event);
    }
  }

  void connection_event(int event) {
    switch (event) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        ++counts_.connects;
        reconnect_at_ = TimePoint::max();
        step(Connected{});
        break;
      case ZMQ_EVENT_CONNECT_RETRIED: reconnect_at_ = TimePoint::max(); break;
      case ZMQ_EVENT_DISCONNECTED:
        if (!options_.bind) reconnect_at_ = steady_clock::now() + kReconnectGrace;
        // What was no connection yet is none that was lost.
        if (std::exchange(handshake_failed_, false)) break;
        ++counts_.disconnects;
        step(Disconnected{});
        break;
      default: handshake_failed_ = true;
    }
  }

  /// ZeroMQ does not connect again to a peer that broke the protocol or a bound; we do.
  void reconnect() {
    if (steady_clock::now() < reconnect_at_) return;
    reconnect_at_ = TimePoint::max();
    zmq_disconnect(sub_.handle(), options_.endpoint.c_str());
    sub_.connect(options_.endpoint);
  }

  /// True when there may be more.
  bool read_live() {
    return read(sub_, [this](const Message& message) {
      if (message.sequence == kEndOfReplay) {
        ++counts_.malformed;
      } else {
        step(Live{message.sequence, std::string(message.payload)});
      }
      return true;
    });
  }

  bool read_replay() {
    if (!replay_) return false;
    return read(*replay_, [this](const Message& message) {
      const ZmqSocket* asked = replay_.get();
      if (message.sequence == kEndOfReplay) {
        step(ReplayEnded{});
      } else {
        step(Replayed{message.sequence, std::string(message.payload)});
      }
      return replay_.get() == asked;  // else a new question took its place
    });
  }

  template <typename Take>
  bool read(ZmqSocket& socket, Take take) {
    std::vector<std::string> frames;
    for (int i = 0; i < kMessagesPerTurn && updates_.has_room(); ++i) {
      const auto received = socket.receive(frames, kFramesMax);
      if (received == ZmqSocket::Received::kNothing) return false;
      const std::vector<std::string_view> views(frames.begin(), frames.end());
      const auto message = received == ZmqSocket::Received::kMessage ? parse_message(views) : std::optional<Message>();
      if (!message) {
        ++counts_.malformed;
      } else if (!take(*message)) {
        return true;
      }
    }
    return true;
  }

  void step(TrackerInput input) {
    act([&](auto now, auto& actions) { tracker_.step(now, std::move(input), actions); });
  }

  template <typename Step>
  void act(Step step) {
    std::vector<TrackerAction> actions;
    step(TimePoint(steady_clock::now()), actions);
    for (TrackerAction& action : actions) {
      if (auto* delivered = std::get_if<Deliver>(&action)) {
        deliver(*delivered);
      } else if (const auto* gap = std::get_if<Gap>(&action)) {
        tell(gap->from, *gap, 0);
      } else if (std::holds_alternative<Restarted>(action)) {
        ++incarnation_;
        tell(0, Restarted{}, 0);
      } else {
        ask(std::get<AskReplay>(action));
      }
    }
  }

  void deliver(const Deliver& delivered) {
    auto decoded = decode(delivered.payload);
    if (!decoded) {
      ++counts_.undecodable;
      return tell(delivered.sequence, Gap{delivered.sequence, delivered.sequence + 1}, 0);
    }
    ++counts_.batches;
    counts_.unknown_events += decoded->unknown;
    tell(delivered.sequence, std::move(decoded->batch), delivered.payload.size());
  }

  void tell(std::uint64_t sequence, decltype(Update::what) what, std::size_t bytes) {
    if (updates_.push(Update{incarnation_, sequence, std::move(what)}, bytes) && options_.on_ready) options_.on_ready();
  }

  void ask(const AskReplay& question) {
    if (!replay_ || question.fresh) {
      replay_ = std::make_unique<ZmqSocket>(context_, zmq::socket_type::dealer);
      prepare(*replay_, options_.replay_endpoint);
      replay_->connect(options_.replay_endpoint);  // a name that does not resolve now is tried again by the next one
    }
    // No room or no way: then no answer comes either, and the tracker asks again.
    const std::string number = sequence_frame(question.from);
    const std::array<std::string_view, 2> frames{"", number};
    replay_->send(frames);
  }

  const SubscriberOptions options_;
  std::string endpoint_;
  UpdateQueue updates_;
  mutable std::mutex mutex_;
  bool stopping_ = false;  // guarded by mutex_
  SubscriberStats stats_;  // guarded by mutex_; the thread's counts as of its last turn
  const Wakeup wakeup_;

  // The thread's.
  zmq::context_t context_;
  ZmqSocket sub_;
  ZmqSocket monitor_;
  std::unique_ptr<ZmqSocket> replay_;
  bool handshake_failed_ = false;
  TimePoint reconnect_at_ = TimePoint::max();
  StreamTracker tracker_;
  std::uint64_t incarnation_ = 1;
  SubscriberStats counts_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Subscriber>> Subscriber::create(const SubscriberOptions& options) {
  auto subscriber = std::make_unique<ZmqSubscriber>(options);
  if (auto opened = subscriber->open(); !opened) return std::move(opened).error();
  return std::unique_ptr<Subscriber>(std::move(subscriber));
}

}  // namespace kvern::engine::events
