#include "engine/events/publisher.h"

#include <gtest/gtest.h>

#include "engine/events/frames.h"
#include "engine/events/testing/fake_cache.h"
#include "engine/events/zmq_socket.h"

namespace kvern::engine::events {
namespace {

using std::chrono::seconds;
using testing::eventually;
using testing::FakeCache;

PublisherOptions loopback() {
  PublisherOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.replay_endpoint = "tcp://127.0.0.1:*";
  options.topic = "kv";
  return options;
}

std::unique_ptr<Publisher> open(const PublisherOptions& options) {
  auto publisher = Publisher::create(options);
  KV_CHECK(publisher.ok());
  return std::move(publisher).value();
}

/// A stock client's sockets, message by message.
class Client {
 public:
  Client(zmq::socket_type type, const std::string& endpoint) : socket_(context_, type) {
    socket_.set(ZMQ_LINGER, 0);
    if (type == zmq::socket_type::sub) socket_.set(ZMQ_SUBSCRIBE, std::string_view());
    KV_CHECK(socket_.connect(endpoint) == 0);
  }
  void ask(const std::vector<std::string>& frames) {
    const std::vector<std::string_view> views(frames.begin(), frames.end());
    KV_CHECK(socket_.send(views) == ZmqSocket::Sent::kSent);
  }
  /// Empty when none comes in time.
  std::vector<std::string> receive(Duration patience = seconds(20)) {
    std::vector<std::string> frames;
    const TimePoint deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (socket_.receive(frames, 8) == ZmqSocket::Received::kMessage) return frames;
      const TimePoint now = std::chrono::steady_clock::now();
      if (now >= deadline) return {};
      zmq_pollitem_t item{};
      item.socket = socket_.handle();
      item.events = ZMQ_POLLIN;
      wait_for_any({&item, 1}, now, deadline);
    }
  }

 private:
  zmq::context_t context_;
  ZmqSocket socket_;
};

kv::KvEventBatch batch_of(const std::string& payload) {
  auto decoded = decode(payload);
  KV_CHECK(decoded.ok());
  return std::move(decoded->batch);
}

TEST(Publisher, RepliesToAReplayAsVllmDoes) {
  const auto publisher = open(loopback());
  FakeCache cache(1);
  std::vector<std::vector<kv::KvEvent>> steps;
  for (int i = 0; i < 5; ++i) {
    steps.push_back(cache.step());
    ASSERT_TRUE(publisher->on_kv_events(steps.back()));
  }
  Client client(zmq::socket_type::dealer, publisher->replay_endpoint());
  client.ask({"", sequence_frame(2)});
  for (std::uint64_t i = 2; i < 5; ++i) {
    const auto frames = client.receive();
    ASSERT_EQ(frames.size(), 4U);
    EXPECT_EQ(frames[0], "");
    EXPECT_EQ(frames[1], "kv");
    EXPECT_EQ(frames[2], sequence_frame(i));
    const auto batch = batch_of(frames[3]);
    EXPECT_EQ(batch.events, steps[i]);
    EXPECT_EQ(batch.data_parallel_rank, 0);
    EXPECT_GT(batch.timestamp_s, 1.7e9);
  }
  EXPECT_EQ(client.receive(), (std::vector<std::string>{"", "", std::string(8, '\xff'), ""}));
  // One who asks for what is to come gets the marker alone, however far ahead.
  for (const std::uint64_t ahead : {std::uint64_t{5}, std::uint64_t{6}, kEndOfReplay}) {
    client.ask({"", sequence_frame(ahead)});
    EXPECT_EQ(client.receive().at(2), std::string(8, '\xff'));
  }
  EXPECT_TRUE(eventually([&] { return publisher->stats().batches == 5; }));
}

TEST(Publisher, SendsLiveWhatItNumbers) {
  const auto publisher = open(loopback());
  Client client(zmq::socket_type::sub, publisher->endpoint());
  FakeCache cache(2);
  // Until the subscription is there, messages pass by; from the first on they come in order, none left out.
  std::vector<std::string> frames;
  std::vector<std::vector<kv::KvEvent>> steps;
  while (frames.empty()) {
    steps.push_back(cache.step());
    ASSERT_TRUE(publisher->on_kv_events(steps.back()));
    frames = client.receive(std::chrono::milliseconds(5));
  }
  for (int i = 0; i < 200; ++i) {
    steps.push_back(cache.step());
    ASSERT_TRUE(publisher->on_kv_events(steps.back()));
  }
  std::uint64_t sequence = *parse_sequence(frames.at(1));
  for (; sequence < steps.size(); ++sequence) {
    ASSERT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames[0], "kv");
    EXPECT_EQ(frames[1], sequence_frame(sequence));
    EXPECT_EQ(batch_of(frames[2]).events, steps[sequence]);
    if (sequence + 1 < steps.size()) frames = client.receive();
  }
}

TEST(Publisher, AReplayOfMoreThanTheBufferBeginsWithTheState) {
  auto options = loopback();
  options.replay_batches_max = 4;
  const auto publisher = open(options);
  FakeCache cache(3);
  for (int i = 0; i < 300; ++i) {
    while (!publisher->on_kv_events({kv::AllBlocksCleared{}})) {
    }
    cache.truth.apply(kv::AllBlocksCleared{});
    auto events = cache.step();
    ASSERT_TRUE(publisher->on_kv_events(std::move(events)));
  }
  Client client(zmq::socket_type::dealer, publisher->replay_endpoint());
  // Its thread is behind us: ask until all is there.
  kv::KvReplica followed;
  std::vector<std::uint64_t> numbers;
  do {
    client.ask({"", sequence_frame(0)});
    followed = {};
    numbers.clear();
    for (;;) {
      const auto frames = client.receive();
      ASSERT_EQ(frames.size(), 4U);
      const std::uint64_t number = *parse_sequence(frames[2]);
      if (number == kEndOfReplay) break;
      numbers.push_back(number);
      for (const auto& event : batch_of(frames[3]).events) followed.apply(event);
    }
  } while (numbers.empty() || numbers.back() < 599);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{595, 596, 597, 598, 599}));
  EXPECT_TRUE(testing::same_blocks(followed, cache.truth));
}

TEST(Publisher, MalformedRequestsAreCountedAndPassedOver) {
  const auto publisher = open(loopback());
  ASSERT_TRUE(publisher->on_kv_events({kv::AllBlocksCleared{}}));
  Client client(zmq::socket_type::dealer, publisher->replay_endpoint());
  client.ask({"", "short"});
  client.ask({sequence_frame(0)});
  client.ask({"x", sequence_frame(0)});
  client.ask({"", "", "", "", sequence_frame(0)});
  client.ask({"", sequence_frame(0)});
  EXPECT_EQ(client.receive().at(2), sequence_frame(0));
  EXPECT_EQ(client.receive().at(2), std::string(8, '\xff'));
  EXPECT_TRUE(eventually([&] { return publisher->stats().replays_refused == 4; }));
}

TEST(Publisher, AFullQueueRefusesAndASnapshotIsAlwaysTaken) {
  auto options = loopback();
  options.queue_batches_max = 0;
  const auto publisher = open(options);
  EXPECT_FALSE(publisher->on_kv_events({kv::BlockRemoved{}}));
  publisher->on_kv_snapshot({kv::AllBlocksCleared{}});
  Client client(zmq::socket_type::dealer, publisher->replay_endpoint());
  std::vector<std::string> frames;
  do {
    client.ask({"", sequence_frame(0)});
    frames = client.receive();
  } while (frames.at(3).empty());
  EXPECT_EQ(frames.at(2), sequence_frame(0));
  EXPECT_EQ(batch_of(frames.at(3)).events, (std::vector<kv::KvEvent>{kv::AllBlocksCleared{}}));
  EXPECT_TRUE(eventually([&] { return publisher->stats().batches_refused == 1; }));
}

TEST(Publisher, ALongReplayIsPacedToItsReader) {
  auto options = loopback();
  options.queue_batches_max = 100'000;
  const auto publisher = open(options);
  constexpr std::uint64_t kBatches = 9000;  // far more than a socket's buffer of 1,000
  for (std::uint64_t i = 0; i < kBatches; ++i) ASSERT_TRUE(publisher->on_kv_events({kv::BlockRemoved{{i}, {}}}));
  Client client(zmq::socket_type::dealer, publisher->replay_endpoint());
  std::uint64_t next = 0;
  while (next < kBatches) {
    client.ask({"", sequence_frame(next)});
    for (;;) {
      const auto frames = client.receive();
      ASSERT_EQ(frames.size(), 4U);
      if (*parse_sequence(frames[2]) == kEndOfReplay) break;
      ASSERT_EQ(*parse_sequence(frames[2]), next++);
    }
  }
}

TEST(Publisher, SaysWhatIsWrongWithAnEndpoint) {
  const auto first = open(loopback());
  auto taken = loopback();
  taken.endpoint = first->endpoint();
  taken.bind = true;
  auto second = Publisher::create(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "events " + first->endpoint() + " is taken by another program: stop that, or choose another port");
  taken = loopback();
  taken.replay_endpoint = first->replay_endpoint();
  EXPECT_EQ(Publisher::create(taken).error().code, ErrorCode::kUnavailable);
  taken.replay_endpoint = "127.0.0.1:5558";
  EXPECT_EQ(Publisher::create(taken).error().param, "replay");
  taken = loopback();
  taken.endpoint = "tcp://no-such-host.invalid:5557";
  taken.bind = true;
  EXPECT_EQ(Publisher::create(taken).error().param, "events");
}

}  // namespace
}  // namespace kvern::engine::events
