#include "engine/events/publisher.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/events/endpoint.h"
#include "engine/events/frames.h"
#include "engine/events/replay_buffer.h"
#include "engine/events/zmq_socket.h"

namespace kvern::engine::events {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::string_view kEventsName = "events";
constexpr std::string_view kReplayName = "replay";
constexpr std::size_t kMessageBytes = std::size_t{1} << 20U;  // cut larger batches about here
constexpr std::size_t kReplaysMax = 16;                       // at once
constexpr std::size_t kReplayBurst = 256;                     // messages to one asker before others get their turn
constexpr seconds kReplayPatience{10};                        // for an asker that reads nothing
constexpr milliseconds kReplayPause{2};                       // until a full asker is tried again
constexpr int kLingerMs = 1000;

struct Step {
  double timestamp_s = 0;
  std::vector<kv::KvEvent> events;
};

/// One asker and how far it has been told.
struct Replay {
  std::string peer;
  std::vector<std::string> state;  // of before the buffer as it was then
  std::size_t state_told = 0;
  std::uint64_t state_end = 0;  // one past the number of the last of these
  std::uint64_t next = 0;
  steady_clock::time_point progress;
};

class ZmqPublisher final : public Publisher {
 public:
  explicit ZmqPublisher(const PublisherOptions& options)
      : options_(options),
        pub_(context_, zmq::socket_type::pub),
        router_(context_, zmq::socket_type::router),
        buffer_(options.replay_batches_max, options.replay_bytes_max, options.style) {}

  ~ZmqPublisher() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wakeup_.signal();
    if (thread_.joinable()) thread_.join();
  }

  /// Opens the sockets and starts the thread.
  Result<void> open() {
    const bool binds = options_.bind.value_or(binds_by_default(options_.endpoint));
    if (auto fits = check_endpoint(options_.endpoint, binds, kEventsName); !fits) return fits;
    pub_.set(ZMQ_LINGER, kLingerMs);
    pub_.set(ZMQ_SNDHWM, std::max(1, options_.subscriber_messages_max));
    pub_.set(ZMQ_XPUB_NODROP, 1);
    if (options_.endpoint.find('[') != std::string::npos) pub_.set(ZMQ_IPV6, 1);
    if (const int error = binds ? pub_.bind(options_.endpoint) : pub_.connect(options_.endpoint); error != 0) {
      return endpoint_error(error, options_.endpoint, binds, kEventsName);
    }
    endpoint_ = binds ? pub_.last_endpoint() : options_.endpoint;
    if (auto opened = open_replay(); !opened) return opened;
    thread_ = std::thread([this] { run(); });
    return {};
  }

  const std::string& endpoint() const override { return endpoint_; }
  const std::string& replay_endpoint() const override { return replay_endpoint_; }

  bool on_kv_events(std::vector<kv::KvEvent> events) override {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= options_.queue_batches_max) {
        ++stats_.batches_refused;
        return false;
      }
      wake = queue_.empty();
      queue_.push_back(Step{now_s(), std::move(events)});
    }
    if (wake) wakeup_.signal();
    return true;
  }

  void on_kv_snapshot(std::vector<kv::KvEvent> events) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.clear();  // all that is part of the snapshot
      queue_.push_back(Step{now_s(), std::move(events)});
    }
    wakeup_.signal();
  }

  PublisherStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  static double now_s() { return std::chrono::duration<double>(system_clock::now().time_since_epoch()).count(); }

  Result<void> open_replay() {
    if (options_.replay_endpoint.empty()) return {};
    if (auto fits = check_endpoint(options_.replay_endpoint, true, kReplayName); !fits) return fits;
    router_.set(ZMQ_LINGER, 0);
    router_.set(ZMQ_ROUTER_MANDATORY, 1);
    router_.set(ZMQ_MAXMSGSIZE, std::int64_t{256});  // requests are a few bytes
    if (options_.replay_endpoint.find('[') != std::string::npos) router_.set(ZMQ_IPV6, 1);
    if (const int error = router_.bind(options_.replay_endpoint); error != 0) {
      return endpoint_error(error, options_.replay_endpoint, true, kReplayName);
    }
    replay_endpoint_ = router_.last_endpoint();
    return {};
  }

  // --- The thread ---------------------------------------------------------------------------------------------------

  void run() {
    std::deque<Step> steps;
    for (bool stopping = false; !stopping;) {
      wait();
      wakeup_.drain();
      {
        const std::lock_guard lock(mutex_);
        stopping = stopping_;
        steps.swap(queue_);
      }
      for (Step& step : steps) publish(std::move(step));
      steps.clear();
      take_requests();
      tell_replays();
      const std::lock_guard lock(mutex_);
      counts_.batches_refused = stats_.batches_refused;
      counts_.buffered_batches = buffer_.end() - buffer_.first();
      counts_.buffered_bytes = buffer_.bytes();
      stats_ = counts_;
    }
  }

  void wait() {
    std::array<zmq_pollitem_t, 2> items{};
    items[0].fd = wakeup_.descriptor();
    items[0].events = ZMQ_POLLIN;
    items[1].socket = router_.handle();
    items[1].events = ZMQ_POLLIN;
    const auto now = steady_clock::now();
    TimePoint deadline = TimePoint::max();
    if (!replays_.empty()) deadline = replays_waiting_ ? now + kReplayPause : now;
    wait_for_any(items, now, deadline);
  }

  void publish(Step step) {
    counts_.events += step.events.size();
    for (auto& events : cut_into_messages(std::move(step.events), kMessageBytes)) {
      std::string payload;
      encode({.timestamp_s = step.timestamp_s,
              .events = std::move(events),
              .data_parallel_rank = options_.data_parallel_rank},
             options_.style, payload);
      ++counts_.batches;
      counts_.bytes += payload.size();
      const std::string number = sequence_frame(buffer_.end());
      send_live({{options_.topic, number, payload}});
      buffer_.append(std::move(payload));
    }
  }

  void send_live(const std::array<std::string_view, 3>& frames) {
    if (pub_.send(frames) == ZmqSocket::Sent::kSent) return;
    // Somebody is too far behind. It goes to the others; ZeroMQ tells this only when asked not to drop.
    ++counts_.batches_lost;
    pub_.set(ZMQ_XPUB_NODROP, 0);
    pub_.send(frames);
    pub_.set(ZMQ_XPUB_NODROP, 1);
  }

  void take_requests() {
    if (replay_endpoint_.empty()) return;
    std::vector<std::string> frames;
    for (std::size_t i = 0; i < kReplaysMax; ++i) {
      const auto received = router_.receive(frames, 3);
      if (received == ZmqSocket::Received::kNothing) return;
      const auto from = received == ZmqSocket::Received::kMessage && frames.size() == 3 && frames[1].empty()
                            ? parse_sequence(frames[2])
                            : std::nullopt;
      // Who asks again has given up the answer before.
      if (from) std::erase_if(replays_, [&](const Replay& replay) { return replay.peer == frames[0]; });
      if (!from || replays_.size() >= kReplaysMax) {
        ++counts_.replays_refused;
        continue;
      }
      begin_replay(std::move(frames[0]), *from);
    }
  }

  void begin_replay(std::string peer, std::uint64_t from) {
    ++counts_.replays;
    Replay& replay = replays_.emplace_back();
    replay.peer = std::move(peer);
    replay.next = std::max(from, buffer_.first());
    replay.state_end = buffer_.first();
    replay.progress = steady_clock::now();
    if (from >= buffer_.first()) return;
    // Numbers from `from` to the buffer's first stand for the state. `from` itself is spared where possible: an asker
    // may know a message of that number and compare.
    const std::uint64_t numbers = buffer_.first() - from;
    replay.state = buffer_.state_before(static_cast<std::size_t>(std::max<std::uint64_t>(1, numbers - 1)));
  }

  /// Some messages to each asker, as far as it takes them.
  void tell_replays() {
    replays_waiting_ = true;
    std::erase_if(replays_, [this](Replay& replay) {
      for (std::size_t i = 0; i < kReplayBurst; ++i) {
        const auto sent = tell_next(replay);
        if (sent == ZmqSocket::Sent::kFull) {
          const bool hopeless = steady_clock::now() - replay.progress > kReplayPatience;
          if (hopeless) ++counts_.replays_refused;
          return hopeless;
        }
        if (sent == ZmqSocket::Sent::kGone) return true;
        if (replay.peer.empty()) return true;  // the end was told
      }
      replays_waiting_ = false;
      return false;
    });
  }

  ZmqSocket::Sent tell_next(Replay& replay) {
    const bool from_state = replay.state_told < replay.state.size();
    replay.next = std::max(replay.next, buffer_.first());  // what left meanwhile is a hole: the asker will ask again
    std::uint64_t sequence = replay.next;
    if (from_state) sequence = replay.state_end - (replay.state.size() - replay.state_told);
    const bool ends = !from_state && replay.next >= buffer_.end();
    if (ends) sequence = kEndOfReplay;
    std::string_view topic;
    if (!ends) topic = options_.topic;
    std::string_view payload;
    if (from_state) {
      payload = replay.state[replay.state_told];
    } else if (!ends) {
      payload = buffer_.payload(replay.next);
    }
    const std::string number = sequence_frame(sequence);
    const std::array<std::string_view, 5> frames{replay.peer, "", topic, number, payload};
    const auto sent = router_.send(frames);
    if (sent != ZmqSocket::Sent::kSent) return sent;
    replay.progress = steady_clock::now();
    if (ends) {
      replay.peer.clear();
    } else if (from_state) {
      ++replay.state_told;
    } else {
      ++replay.next;
    }
    counts_.batches_replayed += ends ? 0 : 1;
    return sent;
  }

  const PublisherOptions options_;
  std::string endpoint_;
  std::string replay_endpoint_;

  mutable std::mutex mutex_;
  std::deque<Step> queue_;  // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_
  PublisherStats stats_;    // guarded by mutex_; the thread's counts as of its last turn
  const Wakeup wakeup_;

  // The thread's.
  zmq::context_t context_;
  ZmqSocket pub_;
  ZmqSocket router_;
  ReplayBuffer buffer_;
  std::vector<Replay> replays_;
  bool replays_waiting_ = false;  // every asker was full
  PublisherStats counts_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Publisher>> Publisher::create(const PublisherOptions& options) {
  auto publisher = std::make_unique<ZmqPublisher>(options);
  if (auto opened = publisher->open(); !opened) return std::move(opened).error();
  return std::unique_ptr<Publisher>(std::move(publisher));
}

}  // namespace kvern::engine::events
