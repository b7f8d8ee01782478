#include "engine/events/subscriber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/events/frames.h"
#include "engine/events/publisher.h"
#include "engine/events/testing/fake_cache.h"
#include "engine/events/testing/recordings.h"
#include "engine/events/zmq_socket.h"

namespace kvern::engine::events {
namespace {

using std::chrono::milliseconds;
using testing::eventually;
using testing::FakeCache;
using testing::same_blocks;

constexpr milliseconds kPatience{30'000};  // for a loaded machine; a test that passes waits for milliseconds

std::unique_ptr<Publisher> publish(const std::string& endpoint = "tcp://127.0.0.1:*",
                                   const std::string& replay = "tcp://127.0.0.1:*", PublisherOptions options = {}) {
  options.endpoint = endpoint;
  options.replay_endpoint = replay;
  options.bind = true;
  auto publisher = Publisher::create(options);
  KV_CHECK(publisher.ok());
  return std::move(publisher).value();
}

std::unique_ptr<Subscriber> subscribe(const Publisher& publisher, SubscriberOptions options = {}) {
  options.endpoint = publisher.endpoint();
  options.replay_endpoint = publisher.replay_endpoint();
  auto subscriber = Subscriber::create(options);
  KV_CHECK(subscriber.ok());
  return std::move(subscriber).value();
}

/// What a consumer makes of the updates; a Gap or a restart leaves it with nothing.
struct Follower {
  kv::KvReplica blocks;
  std::uint64_t next = 0;
  std::uint64_t incarnation = 1;
  std::uint64_t batches = 0;
  std::uint64_t gaps = 0;

  void take(const Update& update) {
    if (std::holds_alternative<Restarted>(update.what)) {
      EXPECT_EQ(update.incarnation, ++incarnation);
      next = 0;
    } else if (const auto* gap = std::get_if<Gap>(&update.what)) {
      EXPECT_EQ(gap->from, next);
      next = gap->to;
      ++gaps;
    }
    if (!std::holds_alternative<kv::KvEventBatch>(update.what)) {
      blocks = {};
      return;
    }
    EXPECT_EQ(update.incarnation, incarnation);
    EXPECT_EQ(update.sequence, next++);
    ++batches;
    for (const auto& event : std::get<kv::KvEventBatch>(update.what).events) EXPECT_TRUE(blocks.apply(event));
  }
  /// Until `done`; false when nothing came for long.
  bool follow(Subscriber& subscriber, auto done) {
    while (!done()) {
      const auto update = subscriber.next(kPatience);
      if (!update) return false;
      take(*update);
    }
    return true;
  }
  bool follow_to(Subscriber& subscriber, std::uint64_t end) {
    return follow(subscriber, [&] { return next >= end; });
  }
};

void run(Publisher& publisher, FakeCache& cache, int steps) {
  for (int i = 0; i < steps; ++i) {
    // A queue that is full only makes this thread wait: tests of what is lost come below.
    auto events = cache.step();
    while (!publisher.on_kv_events(events)) std::this_thread::yield();
  }
}

TEST(Subscriber, GetsEveryBatchOnceAndInOrder) {
  const auto publisher = publish();
  FakeCache cache(1);
  run(*publisher, cache, 100);  // before it comes
  const auto subscriber = subscribe(*publisher);
  Follower follower;
  std::thread engine([&] { run(*publisher, cache, 900); });
  EXPECT_TRUE(follower.follow_to(*subscriber, 1000));
  engine.join();
  EXPECT_EQ(follower.batches, 1000U);
  EXPECT_EQ(follower.gaps, 0U);
  EXPECT_TRUE(same_blocks(follower.blocks, cache.truth));
  EXPECT_EQ(subscriber->try_next(), std::nullopt);
}

TEST(Subscriber, ARestartedSubscriberGetsAllAgain) {
  const auto publisher = publish();
  FakeCache cache(2);
  for (int life = 0; life < 3; ++life) {
    const auto subscriber = subscribe(*publisher);
    run(*publisher, cache, 50);
    Follower follower;
    EXPECT_TRUE(follower.follow_to(*subscriber, 50 * (static_cast<std::uint64_t>(life) + 1)));
    EXPECT_EQ(follower.gaps, 0U);
    EXPECT_TRUE(same_blocks(follower.blocks, cache.truth));
  }
}

TEST(Subscriber, ARestartedPublisherIsNoticed) {
  auto publisher = publish();
  const std::string endpoint = publisher->endpoint();
  const std::string replay = publisher->replay_endpoint();
  const auto subscriber = subscribe(*publisher);
  Follower follower;
  // Fewer messages than before, as many, more: the numbers alone would tell the first only.
  std::uint64_t lives = 1;
  FakeCache cache(3);
  run(*publisher, cache, 20);
  ASSERT_TRUE(follower.follow_to(*subscriber, 20));
  for (const int steps : {5, 5, 30}) {
    publisher.reset();
    publisher = publish(endpoint, replay);
    FakeCache anew(100 + lives);
    run(*publisher, anew, steps);
    ++lives;
    ASSERT_TRUE(follower.follow(*subscriber, [&] {
      return follower.incarnation == lives && follower.next == static_cast<std::uint64_t>(steps);
    }));
    EXPECT_TRUE(same_blocks(follower.blocks, anew.truth));
  }
  EXPECT_EQ(follower.gaps, 0U);
  EXPECT_EQ(subscriber->stats().incarnation, 4U);
}

TEST(Subscriber, ASlowOneLosesNothingWhileThePublisherRemembers) {
  PublisherOptions publishing;
  publishing.subscriber_messages_max = 10;
  const auto publisher = publish("tcp://127.0.0.1:*", "tcp://127.0.0.1:*", publishing);
  SubscriberOptions options;
  options.updates_max = 3;
  options.unread_messages_max = 5;
  const auto subscriber = subscribe(*publisher, options);
  Follower follower;
  FakeCache cache(4);
  run(*publisher, cache, 10);
  ASSERT_TRUE(follower.follow_to(*subscriber, 10));
  // Nobody reads meanwhile. The kernel's buffers take a few megabytes; these are more.
  std::uint64_t sent = 10;
  while (publisher->stats().batches_lost == 0) {
    kv::BlockRemoved large;
    large.block_hashes.assign(20'000, std::uint64_t{1} << 63U);
    while (!publisher->on_kv_events({large})) std::this_thread::yield();
    ++sent;
  }
  run(*publisher, cache, 500);
  sent += 500;
  EXPECT_TRUE(follower.follow_to(*subscriber, sent));
  EXPECT_EQ(follower.gaps, 0U);
  EXPECT_TRUE(same_blocks(follower.blocks, cache.truth));
  EXPECT_GT(publisher->stats().batches_replayed, 0U);
}

TEST(Subscriber, WhatThePublisherForgotIsAGapAndThenTheState) {
  PublisherOptions publishing;
  publishing.replay_batches_max = 5;
  const auto publisher = publish("tcp://127.0.0.1:*", "tcp://127.0.0.1:*", publishing);
  FakeCache cache(5);
  run(*publisher, cache, 500);
  const auto subscriber = subscribe(*publisher);
  Follower follower;
  EXPECT_TRUE(follower.follow_to(*subscriber, 500));
  EXPECT_GE(follower.gaps, 1U);
  EXPECT_TRUE(same_blocks(follower.blocks, cache.truth));
}

TEST(Subscriber, WithoutReplayEveryHoleIsTold) {
  PublisherOptions publishing;
  const auto publisher = publish("tcp://127.0.0.1:*", "", publishing);
  FakeCache cache(6);
  run(*publisher, cache, 5);
  const auto subscriber = subscribe(*publisher);
  Follower follower;
  // Until the subscription is there.
  std::uint64_t sent = 5;
  while (follower.batches == 0) {
    run(*publisher, cache, 1);
    ++sent;
    while (const auto update = subscriber->next(milliseconds(2))) follower.take(*update);
  }
  EXPECT_EQ(follower.gaps, 1U);
  run(*publisher, cache, 20);
  EXPECT_TRUE(follower.follow_to(*subscriber, sent + 20));
  EXPECT_EQ(follower.gaps, 1U);
}

TEST(Subscriber, ThePublisherMayConnect) {
  SubscriberOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.bind = true;
  // The replay socket is always the publisher's to bind.
  PublisherOptions publishing;
  publishing.replay_endpoint = "tcp://127.0.0.1:*";
  auto bound = Subscriber::create(options);
  ASSERT_TRUE(bound.ok());
  publishing.endpoint = (*bound)->endpoint();
  auto publisher = Publisher::create(publishing);
  ASSERT_TRUE(publisher.ok());
  EXPECT_EQ((*publisher)->endpoint(), publishing.endpoint);
  options.replay_endpoint = (*publisher)->replay_endpoint();
  options.endpoint = (*bound)->endpoint();
  bound = fail(ErrorCode::kCancelled, "");  // its address is free again
  auto subscriber = Subscriber::create(options);
  ASSERT_TRUE(subscriber.ok()) << subscriber.error().message;
  FakeCache cache(7);
  run(**publisher, cache, 100);
  Follower follower;
  EXPECT_TRUE(follower.follow_to(**subscriber, 100));
  EXPECT_EQ(follower.gaps, 0U);
  EXPECT_TRUE(same_blocks(follower.blocks, cache.truth));
  EXPECT_TRUE(eventually([&] { return (*subscriber)->stats().connects == 1; }));
}

TEST(Subscriber, TellsItsConsumerWhenUpdatesCome) {
  std::atomic<int> told = 0;
  SubscriberOptions options;
  options.on_ready = [&] { ++told; };
  const auto publisher = publish();
  const auto subscriber = subscribe(*publisher, options);
  FakeCache cache(8);
  Follower follower;
  for (int i = 1; i <= 3; ++i) {
    run(*publisher, cache, 1);
    EXPECT_TRUE(eventually([&] { return told == i; }));
    EXPECT_TRUE(follower.follow_to(*subscriber, static_cast<std::uint64_t>(i)));
  }
}

/// Sockets of a publisher that is not ours: it sends what it is told.
class ForeignPublisher {
 public:
  ForeignPublisher() : pub_(context_, zmq::socket_type::xpub), router_(context_, zmq::socket_type::router) {
    pub_.set(ZMQ_LINGER, 0);
    router_.set(ZMQ_LINGER, 0);
    KV_CHECK(pub_.bind("tcp://127.0.0.1:*") == 0 && router_.bind("tcp://127.0.0.1:*") == 0);
  }
  SubscriberOptions options(bool replay) const {
    SubscriberOptions options;
    options.endpoint = pub_.last_endpoint();
    if (replay) options.replay_endpoint = router_.last_endpoint();
    return options;
  }
  /// Until one comes or goes.
  void wait_for_subscription() {
    std::vector<std::string> frames;
    KV_CHECK(eventually([&] { return pub_.receive(frames, 8) == ZmqSocket::Received::kMessage; }));
  }
  void send(const std::vector<std::string>& frames) { send(pub_, frames); }
  /// Answers each question that waits with these messages, from the number asked for, and the marker of their layout.
  void answer(const std::vector<std::vector<std::string>>& messages) {
    std::vector<std::string> question;
    while (router_.receive(question, 8) == ZmqSocket::Received::kMessage) {
      KV_CHECK(question.size() == 3 && question[1].empty());
      for (auto frames : messages) {
        if (frames[frames.size() - 2] < question[2]) continue;
        frames.insert(frames.begin(), question[0]);
        send(router_, frames);
      }
    }
  }

 private:
  static void send(ZmqSocket& socket, const std::vector<std::string>& frames) {
    const std::vector<std::string_view> views(frames.begin(), frames.end());
    KV_CHECK(socket.send(views) == ZmqSocket::Sent::kSent);
  }
  zmq::context_t context_;
  ZmqSocket pub_;
  ZmqSocket router_;
};

std::string cleared_payload() {
  std::string payload;
  encode({.timestamp_s = 1, .events = {kv::AllBlocksCleared{}}, .data_parallel_rank = 0}, WireStyle::kVllmMaps,
         payload);
  return payload;
}

TEST(Subscriber, GarbageIsCountedAndPassedOver) {
  ForeignPublisher foreign;
  auto subscriber = Subscriber::create(foreign.options(false));
  ASSERT_TRUE(subscriber.ok());
  foreign.wait_for_subscription();
  const std::string good = cleared_payload();
  foreign.send({"kv", sequence_frame(0), good});
  foreign.send({"kv"});
  foreign.send({"kv", "123", good});
  foreign.send({"kv", sequence_frame(1), good, "x", "y", "z"});
  foreign.send({"kv", sequence_frame(kEndOfReplay), ""});
  foreign.send({"kv", sequence_frame(1), ""});
  foreign.send({"kv", sequence_frame(1), std::string("\x93\x01\xdd\xff\xff\xff\xff", 7)});
  foreign.send({"kv", sequence_frame(2), std::string(100'000, '\x91')});
  foreign.send({"kv", sequence_frame(3), good});
  std::string story;
  while (story.find('3') == std::string::npos) {
    const auto update = (*subscriber)->next(kPatience);
    ASSERT_TRUE(update);
    story += std::holds_alternative<Gap>(update->what) ? " gap" : " " + std::to_string(update->sequence);
  }
  EXPECT_EQ(story, " 0 gap gap 3");
  EXPECT_TRUE(eventually([&] { return (*subscriber)->stats().malformed == 5; }));
  EXPECT_TRUE(eventually([&] { return (*subscriber)->stats().undecodable == 2; }));
}

TEST(Subscriber, AMessageBeyondItsBoundEndsThatConnectionOnly) {
  ForeignPublisher foreign;
  auto options = foreign.options(false);
  options.message_bytes_max = 1000;
  auto subscriber = Subscriber::create(options);
  ASSERT_TRUE(subscriber.ok());
  foreign.wait_for_subscription();
  foreign.send({"kv", sequence_frame(0), std::string(2000, 'x')});
  foreign.wait_for_subscription();  // it leaves
  foreign.wait_for_subscription();  // and comes back
  foreign.send({"kv", sequence_frame(1), cleared_payload()});
  const auto gap = (*subscriber)->next(kPatience);
  ASSERT_TRUE(gap);
  EXPECT_EQ(std::get<Gap>(gap->what), (Gap{0, 1}));
  EXPECT_TRUE((*subscriber)->next(kPatience));
}

// A stock vLLM as recorded. Live only messages 0 to 2 and 5 come through; the recorded replay brings the rest.
TEST(Subscriber, FollowsARecordedVllm) {
  const auto live = testing::recorded_frames("vllm-0.32-events.jsonl");
  const auto replay = testing::recorded_frames("vllm-0.32-replay-from-3.jsonl");
  ForeignPublisher vllm;
  auto subscriber = Subscriber::create(vllm.options(true));
  ASSERT_TRUE(subscriber.ok());
  Follower follower;
  const auto follow_to = [&](std::uint64_t end, const std::vector<std::vector<std::string>>& buffer) {
    return eventually([&] {
      vllm.answer(buffer);
      if (const auto update = (*subscriber)->next(milliseconds(1))) follower.take(*update);
      return follower.next >= end;
    });
  };
  vllm.wait_for_subscription();
  std::vector<std::vector<std::string>> buffer;
  for (std::size_t i = 0; i < 3; ++i) {
    buffer.push_back({"", live[i][0], live[i][1], live[i][2]});
    vllm.send(live[i]);
  }
  auto so_far = buffer;
  so_far.push_back(replay.back());
  ASSERT_TRUE(follow_to(3, so_far));
  buffer.insert(buffer.end(), replay.begin(), replay.end());
  vllm.send(live[5]);
  ASSERT_TRUE(follow_to(14, buffer));
  EXPECT_EQ(follower.batches, 14U);
  EXPECT_EQ(follower.gaps, 0U);
  EXPECT_EQ(follower.incarnation, 1U);
  EXPECT_EQ(follower.blocks.blocks(), 3U);  // what was stored after the cache was reset
}

// SGLang's replies have no topic, and its tuples are events too.
TEST(Subscriber, FollowsRepliesWithoutATopic) {
  ForeignPublisher sglang;
  auto subscriber = Subscriber::create(sglang.options(true));
  ASSERT_TRUE(subscriber.ok());
  std::string payload;
  kv::BlockStored stored;
  stored.block_hashes = {~std::uint64_t{0}};
  stored.token_ids = {1, 2};
  stored.block_size = 2;
  encode({.timestamp_s = 1, .events = {stored}, .data_parallel_rank = {}}, WireStyle::kSglangTuples, payload);
  Follower follower;
  EXPECT_TRUE(eventually([&] {
    sglang.answer({{"", sequence_frame(0), payload}, {"", sequence_frame(kEndOfReplay), ""}});
    if (const auto update = (*subscriber)->next(milliseconds(1))) follower.take(*update);
    return follower.next == 1;
  }));
  EXPECT_NE(follower.blocks.find(~std::uint64_t{0}), nullptr);
}

TEST(Subscriber, SaysWhatIsWrongWithAnEndpoint) {
  SubscriberOptions options;
  options.endpoint = "tcp://*:5557";
  EXPECT_EQ(Subscriber::create(options).error().param, "events");
  options.endpoint = "tcp://127.0.0.1:5557";
  options.replay_endpoint = "tcp://127.0.0.1:*";
  EXPECT_EQ(Subscriber::create(options).error().param, "replay");
}

}  // namespace
}  // namespace kvern::engine::events
