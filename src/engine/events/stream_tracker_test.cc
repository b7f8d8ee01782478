#include "engine/events/stream_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/rng.h"

namespace kvern::engine::events {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Tells a tracker what comes and writes down what it does: `3` delivered, `gap 3-5`, `restart`, `ask 2` (`ask 2!` over
/// a fresh connection).
class Stream {
 public:
  explicit Stream(TrackerOptions options) : tracker(options) { tracker.start(now, actions); }
  std::string start() { return told(); }
  std::string live(std::uint64_t sequence, const std::string& life = "a") {
    return step(Live{sequence, payload(sequence, life)});
  }
  std::string replay(std::uint64_t sequence, const std::string& life = "a") {
    return step(Replayed{sequence, payload(sequence, life)});
  }
  std::string end() { return step(ReplayEnded{}); }
  std::string connected() { return step(Connected{}); }
  std::string disconnected() { return step(Disconnected{}); }
  std::string wait(Duration time) {
    now += time;
    return step(Tick{});
  }

  TimePoint now{};
  std::vector<TrackerAction> actions;
  StreamTracker tracker;

 private:
  static std::string payload(std::uint64_t sequence, const std::string& life) {
    return life + std::to_string(sequence);
  }
  std::string step(TrackerInput input) {
    tracker.step(now, std::move(input), actions);
    return told();
  }
  std::string told() {
    std::string text;
    for (const auto& action : actions) {
      if (!text.empty()) text += ", ";
      if (const auto* delivered = std::get_if<Deliver>(&action)) {
        text += std::to_string(delivered->sequence);
      } else if (const auto* gap = std::get_if<Gap>(&action)) {
        text += "gap " + std::to_string(gap->from) + "-" + std::to_string(gap->to);
      } else if (std::holds_alternative<Restarted>(action)) {
        text += "restart";
      } else {
        const auto& ask = std::get<AskReplay>(action);
        text += "ask " + std::to_string(ask.from) + (ask.fresh ? "!" : "");
      }
    }
    actions.clear();
    return text;
  }
};

TrackerOptions with_replay() { return {.replay = true}; }

TEST(StreamTracker, WithoutReplayHolesAreTold) {
  Stream stream({});
  EXPECT_EQ(stream.start(), "");
  EXPECT_EQ(stream.live(0), "0");
  EXPECT_EQ(stream.live(1), "1");
  EXPECT_EQ(stream.live(4), "gap 2-4, 4");
  EXPECT_EQ(stream.live(3), "");  // late
  EXPECT_EQ(stream.live(4), "");  // doubled
  EXPECT_EQ(stream.live(5), "5");
  EXPECT_EQ(stream.tracker.stats().late, 1U);
  EXPECT_EQ(stream.tracker.stats().duplicates, 1U);
  EXPECT_EQ(stream.tracker.deadline(), TimePoint::max());
}

TEST(StreamTracker, WithoutReplayARestartShowsInTheNumbers) {
  Stream stream({});
  EXPECT_EQ(stream.live(7), "gap 0-7, 7");
  EXPECT_EQ(stream.live(8), "8");
  EXPECT_EQ(stream.live(0, "b"), "restart, 0");
  EXPECT_EQ(stream.live(1, "b"), "1");
  EXPECT_EQ(stream.live(1, "c"), "restart, gap 0-1, 1");
  EXPECT_EQ(stream.tracker.incarnation(), 3U);
}

TEST(StreamTracker, BeginsWithAReplayOfAll) {
  Stream stream(with_replay());
  EXPECT_EQ(stream.start(), "ask 0");
  EXPECT_EQ(stream.live(2), "");  // held
  EXPECT_EQ(stream.replay(0), "0");
  EXPECT_EQ(stream.replay(1), "1");
  EXPECT_EQ(stream.replay(2), "2");
  EXPECT_EQ(stream.live(3), "");
  EXPECT_EQ(stream.end(), "3");
  EXPECT_EQ(stream.live(4), "4");
}

TEST(StreamTracker, WhatThePublisherNoLongerHasIsAGap) {
  Stream stream(with_replay());
  stream.start();
  EXPECT_EQ(stream.replay(5), "gap 0-5, 5");
  EXPECT_EQ(stream.end(), "");
}

TEST(StreamTracker, AHoleIsAskedForAndFilledInOrder) {
  Stream stream(with_replay());
  stream.start();
  stream.end();
  EXPECT_EQ(stream.live(0), "0");
  EXPECT_EQ(stream.live(3), "ask 0");
  EXPECT_EQ(stream.live(4), "");
  EXPECT_EQ(stream.replay(0), "");  // the same as was delivered: no other publisher
  EXPECT_EQ(stream.replay(1), "1");
  EXPECT_EQ(stream.replay(2), "2");
  EXPECT_EQ(stream.replay(3), "3");
  EXPECT_EQ(stream.replay(4), "4");
  EXPECT_EQ(stream.live(5), "");
  EXPECT_EQ(stream.end(), "5");
  EXPECT_EQ(stream.tracker.stats().delivered, 6U);
}

TEST(StreamTracker, AHoleThatTheReplayHasTooIsTold) {
  Stream stream(with_replay());
  stream.start();
  stream.end();
  stream.live(0);
  EXPECT_EQ(stream.live(3), "ask 0");
  EXPECT_EQ(stream.replay(0), "");
  EXPECT_EQ(stream.end(), "gap 1-3, 3");
  // What came only after the question may have been unknown to the answer.
  EXPECT_EQ(stream.live(5), "ask 3");
  EXPECT_EQ(stream.live(8), "");
  EXPECT_EQ(stream.replay(3), "");
  EXPECT_EQ(stream.replay(4), "4");
  EXPECT_EQ(stream.end(), "5, ask 5");
}

TEST(StreamTracker, AnAnswerWithAHoleIsAskedForAgainWhileItBringsSomething) {
  Stream stream(with_replay());
  stream.start();
  EXPECT_EQ(stream.replay(0), "0");
  EXPECT_EQ(stream.replay(2), "ask 0!");
  EXPECT_EQ(stream.replay(0), "");
  EXPECT_EQ(stream.replay(2), "gap 1-2, 2");
}

TEST(StreamTracker, ARestartIsSeenByTheContentOfTheLastMessage) {
  Stream stream(with_replay());
  stream.start();
  stream.end();
  stream.live(0);
  stream.live(1);
  // The numbers of the new publisher happen to go on.
  EXPECT_EQ(stream.connected(), "ask 1");
  EXPECT_EQ(stream.live(2, "b"), "");
  EXPECT_EQ(stream.replay(1, "b"), "restart, ask 0!");
  EXPECT_EQ(stream.replay(0, "b"), "0");
  EXPECT_EQ(stream.replay(1, "b"), "1");
  EXPECT_EQ(stream.replay(2, "b"), "2");
  EXPECT_EQ(stream.end(), "");
  // One that has fewer than we know.
  EXPECT_EQ(stream.connected(), "ask 2");
  EXPECT_EQ(stream.end(), "restart, ask 0");
  EXPECT_EQ(stream.replay(0, "c"), "0");
  EXPECT_EQ(stream.end(), "");
  EXPECT_EQ(stream.tracker.incarnation(), 3U);
  // One that answers before its live messages are connected: until then those are of the one before.
  EXPECT_EQ(stream.live(3, "c"), "ask 0");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(stream.disconnected(), "");
  EXPECT_EQ(stream.replay(0, "d"), "restart, ask 0!");
  EXPECT_EQ(stream.replay(0, "d"), "0");
  EXPECT_EQ(stream.live(1, "c"), "");
  EXPECT_EQ(stream.end(), "");
  EXPECT_EQ(stream.live(1, "c"), "");
  EXPECT_EQ(stream.connected(), "ask 0");
  EXPECT_EQ(stream.replay(0, "d"), "");
  EXPECT_EQ(stream.live(1, "d"), "");
  EXPECT_EQ(stream.end(), "1");
}

TEST(StreamTracker, ARestartIsSeenByALowNumber) {
  Stream stream(with_replay());
  stream.start();
  stream.replay(0);
  stream.replay(1);
  stream.end();
  EXPECT_EQ(stream.live(0), "");  // doubled, the same
  EXPECT_EQ(stream.live(0, "b"), "restart, ask 0");
  EXPECT_EQ(stream.replay(0, "b"), "0");
}

TEST(StreamTracker, ANumberNeverSeenMayBeAStragglerOrARestart) {
  Stream stream(with_replay());
  stream.start();
  EXPECT_EQ(stream.replay(2), "gap 0-2, 2");
  stream.end();
  EXPECT_EQ(stream.live(1), "ask 2");
  EXPECT_EQ(stream.replay(2), "");
  EXPECT_EQ(stream.end(), "");
  EXPECT_EQ(stream.live(0, "b"), "ask 2");
  EXPECT_EQ(stream.end(), "restart, ask 0");
}

TEST(StreamTracker, APublisherThatHasNotReplayedYetIsAskedWhetherItDoes) {
  Stream stream(with_replay());
  stream.start();
  stream.end();
  EXPECT_EQ(stream.live(0), "0");
  EXPECT_EQ(stream.connected(), "ask 0");
  EXPECT_EQ(stream.end(), "ask 0");
  EXPECT_EQ(stream.replay(0, "b"), "restart, 0");
  EXPECT_EQ(stream.replay(1, "b"), "1");
  EXPECT_EQ(stream.end(), "");
  // It never does: continuity cannot be shown, once.
  Stream forgetful(with_replay());
  forgetful.start();
  forgetful.end();
  EXPECT_EQ(forgetful.live(0), "0");
  EXPECT_EQ(forgetful.connected(), "ask 0");
  EXPECT_EQ(forgetful.end(), "ask 0");
  EXPECT_EQ(forgetful.end(), "gap 1-1");
  EXPECT_EQ(forgetful.live(1), "1");
  EXPECT_EQ(forgetful.wait(milliseconds(100)), "ask 1");
  EXPECT_EQ(forgetful.end(), "ask 0");
  EXPECT_EQ(forgetful.end(), "");
}

TEST(StreamTracker, AQuietStreamIsProbed) {
  Stream stream(with_replay());
  stream.start();
  stream.replay(0);
  stream.end();
  EXPECT_EQ(stream.wait(milliseconds(99)), "");
  EXPECT_EQ(stream.wait(milliseconds(1)), "ask 0");
  EXPECT_EQ(stream.replay(0), "");
  EXPECT_EQ(stream.replay(1), "1");  // was lost on its way, and nothing came after it
  EXPECT_EQ(stream.end(), "");
  EXPECT_EQ(stream.wait(milliseconds(199)), "");  // the next ones come later, up to every five seconds
  EXPECT_EQ(stream.wait(milliseconds(1)), "ask 1");
  EXPECT_EQ(stream.end(), "restart, ask 0");
}

TEST(StreamTracker, RepliesThatDoNotComeAreAskedForWithBackoffThenGivenUp) {
  Stream stream(with_replay());
  EXPECT_EQ(stream.start(), "ask 0");
  EXPECT_EQ(stream.live(2), "");
  EXPECT_EQ(stream.wait(seconds(1)), "");
  EXPECT_EQ(stream.wait(milliseconds(9)), "");
  EXPECT_EQ(stream.wait(milliseconds(1)), "ask 0!");
  EXPECT_EQ(stream.wait(seconds(1)), "");
  EXPECT_EQ(stream.wait(milliseconds(20)), "ask 0!");
  EXPECT_EQ(stream.wait(seconds(1)), "");
  EXPECT_EQ(stream.wait(milliseconds(40)), "ask 0!");
  EXPECT_EQ(stream.live(5), "");
  EXPECT_EQ(stream.wait(seconds(1)), "gap 0-2, 2, gap 3-5, 5");
  EXPECT_EQ(stream.live(6), "6");
  EXPECT_EQ(stream.replay(0), "");  // too late
  EXPECT_EQ(stream.wait(seconds(5)), "ask 6!");
}

TEST(StreamTracker, ContinuityThatCannotBeShownIsAGap) {
  Stream stream(with_replay());
  stream.start();
  stream.end();
  stream.live(0);
  EXPECT_EQ(stream.connected(), "ask 0");
  EXPECT_EQ(stream.live(1), "");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(stream.wait(seconds(1)), "");
    EXPECT_EQ(stream.wait(seconds(1)), "ask 0!");
  }
  EXPECT_EQ(stream.wait(seconds(1)), "gap 1-1, 1");
  EXPECT_EQ(stream.live(2), "2");
  // A buffer that has just lost the message to compare.
  EXPECT_EQ(stream.connected(), "ask 2!");
  EXPECT_EQ(stream.replay(3), "gap 3-3, 3");
}

TEST(StreamTracker, WhatIsHeldIsBounded) {
  auto options = with_replay();
  options.held_messages_max = 2;
  Stream stream(options);
  stream.start();
  for (std::uint64_t i = 1; i < 6; ++i) EXPECT_EQ(stream.live(i), "");
  EXPECT_EQ(stream.tracker.stats().held_dropped, 3U);
  EXPECT_EQ(stream.replay(0), "0");
  // 1 and 2 were held, the others are known to exist.
  EXPECT_EQ(stream.end(), "1, 2, ask 2");
  EXPECT_EQ(stream.replay(2), "");
  EXPECT_EQ(stream.replay(3), "3");
  EXPECT_EQ(stream.replay(4), "4");
  EXPECT_EQ(stream.end(), "gap 5-6");

  options.held_messages_max = 100;
  options.held_bytes_max = 4;  // two payloads
  Stream bytes(options);
  bytes.start();
  for (std::uint64_t i = 1; i < 6; ++i) bytes.live(i);
  EXPECT_EQ(bytes.tracker.stats().held_dropped, 3U);
}

TEST(StreamTracker, AnAbsurdNumberIsAGapAndThenARestart) {
  Stream stream(with_replay());
  stream.start();
  stream.replay(0);
  stream.end();
  const std::uint64_t absurd = ~std::uint64_t{0} - 1;
  EXPECT_EQ(stream.live(absurd), "ask 0");
  EXPECT_EQ(stream.replay(0), "");
  EXPECT_EQ(stream.end(), "gap 1-18446744073709551614, 18446744073709551614");
  EXPECT_EQ(stream.live(1), "ask 18446744073709551614");
  EXPECT_EQ(stream.end(), "restart, ask 0");
}

// --- A model: publishers that restart, a network that loses, doubles and reorders -----------------------------------

/// What one life of a publisher sent. Contents of different lives differ.
using Log = std::vector<std::string>;

class World {
 public:
  World(std::uint64_t seed, bool replay) : rng_(seed), tracker_(options(replay, rng_)), buffer_(5 + rng_.below(40)) {
    lives_.emplace_back();
    tracker_.start(now_, actions_);
    run_actions();
  }

  void turn(bool faults) {
    faults_ = faults;
    now_ += milliseconds(rng_.below(20));
    const std::uint64_t dice = rng_.below(100);
    if (dice < 35 && may_publish_) {
      publish();
    } else if (dice < 65) {
      deliver_live();
    } else if (dice < 95) {
      deliver_replay();
    } else if (dice < 96 && faults) {
      restart();
    } else if (dice < 97) {
      connect();
    }
    if (now_ >= tracker_.deadline()) feed(Tick{});
  }

  /// No faults any more: everything has to come.
  void heal() {
    for (int i = 0; i < 200; ++i) turn(false);
    connect();
    may_publish_ = false;
    // A replay that was slow may be told as a Gap, but not for ever: what is sent now arrives.
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 1000; ++i) turn(false);
      ASSERT_EQ(tracker_.next(), lives_.back().size());
      if (last_ && !lives_.back().empty() && last_->second == lives_.back().back()) return;
      publish();
    }
    FAIL() << "the last messages do not arrive";
  }

  std::uint64_t delivered = 0;
  std::uint64_t restarts = 0;

 private:
  static TrackerOptions options(bool replay, Rng& rng) {
    return {.replay = replay,
            .held_messages_max = 1 + rng.below(40),
            .replay_timeout = milliseconds(100),
            .replay_attempts = static_cast<unsigned>(1 + rng.below(4)),
            .backoff_max = milliseconds(200),
            .probe_min = milliseconds(50),
            .probe_max = milliseconds(400)};
  }

  void publish() {
    Log& log = lives_.back();
    log.push_back("life " + std::to_string(lives_.size()) + " message " + std::to_string(log.size()));
    live_.push_back(Live{log.size() - 1, log.back()});
    if (!faults_) return;
    const std::uint64_t dice = rng_.below(20);
    if (dice < 3) live_.pop_back();                // lost
    if (dice == 4) live_.push_back(live_.back());  // doubled
    if (dice == 5 && live_.size() > 1) std::swap(live_.back(), live_[live_.size() - 2]);
  }

  void deliver_live() {
    // A connection tells of itself before what comes over it.
    if (must_connect_) return connect();
    feed_live();
  }

  void feed_live() {
    if (live_.empty()) return;
    Live next = std::move(live_.front());
    live_.erase(live_.begin());
    feed(std::move(next));
  }

  void restart() {
    ++restarts;
    lives_.emplace_back();
    if (!must_connect_) feed(Disconnected{});
    // What the old one sent arrives or is lost, before the new connection is made.
    while (!must_connect_ && !live_.empty() && rng_.below(3) != 0) feed_live();
    live_.clear();
    answer_.reset();
    must_connect_ = true;
    if (rng_.below(2) == 0) {
      // The new one may be as far as the old one, or further, when we get to it.
      const std::size_t far = rng_.below(60);
      for (std::size_t i = 0; i < far; ++i) publish();
      live_.clear();
    }
  }

  void connect() {
    if (!must_connect_) feed(Disconnected{});
    must_connect_ = false;
    if (faults_ && rng_.below(2) == 0) live_.clear();  // the subscription came too late for these
    feed(Connected{});
  }

  void deliver_replay() {
    if (!answer_) return;
    const Log& log = lives_.back();
    // The answer is what the publisher has when it comes to it; it can get lost, wholly or in part.
    if (faults_ && rng_.below(15) == 0) return answer_.reset();
    if (*answer_ >= log.size()) {
      answer_.reset();
      return feed(ReplayEnded{});
    }
    const std::uint64_t first = log.size() > buffer_ ? log.size() - buffer_ : 0;
    const std::uint64_t sequence = std::max(*answer_, first);
    answer_ = sequence + 1;
    if (faults_ && rng_.below(15) == 0) return;  // a hole in the answer
    feed(Replayed{sequence, log[sequence]});
  }

  void feed(TrackerInput input) {
    tracker_.step(now_, std::move(input), actions_);
    run_actions();
  }

  void run_actions() {
    for (auto& action : std::exchange(actions_, {})) {
      if (auto* message = std::get_if<Deliver>(&action)) {
        check(message->sequence, message->payload);
      } else if (const auto* ask = std::get_if<AskReplay>(&action)) {
        answer_ = ask->from;
      } else {
        continuous_ = false;  // told
        if (std::holds_alternative<Restarted>(action)) last_.reset();
      }
    }
  }

  /// Nothing goes unnoticed: without a notice in between, what comes is what the same life of the publisher sent next.
  void check(std::uint64_t sequence, const std::string& payload) {
    ++delivered;
    EXPECT_TRUE(last_ ? sequence > last_->first : !continuous_ || sequence == 0) << sequence;
    if (continuous_ && last_) {
      const auto same = [&](const Log& log) {
        return sequence < log.size() && sequence == last_->first + 1 && log[sequence] == payload &&
               log[sequence - 1] == last_->second;
      };
      EXPECT_TRUE(std::ranges::any_of(lives_, same)) << "after " << last_->second << " came " << payload;
    }
    last_.emplace(sequence, payload);
    continuous_ = true;
  }

  Rng rng_;
  TimePoint now_{};
  std::vector<TrackerAction> actions_;
  StreamTracker tracker_;
  const std::uint64_t buffer_;  // messages the publisher can replay
  std::vector<Log> lives_;
  std::vector<Live> live_;               // under way
  std::optional<std::uint64_t> answer_;  // the replay under way: what comes next
  bool faults_ = true;
  bool may_publish_ = true;
  bool must_connect_ = true;
  bool continuous_ = true;
  std::optional<std::pair<std::uint64_t, std::string>> last_;
};

TEST(StreamTrackerModel, NothingGoesUnnoticedAndAllComesOnceFaultsEnd) {
  std::uint64_t delivered = 0;
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    World world(seed, true);
    for (int i = 0; i < 1500; ++i) world.turn(true);
    world.heal();
    if (HasFailure()) return;
    delivered += world.delivered;
    restarts += world.restarts;
  }
  EXPECT_GT(delivered, 100'000U);
  EXPECT_GT(restarts, 3000U);
}

}  // namespace
}  // namespace kvern::engine::events
