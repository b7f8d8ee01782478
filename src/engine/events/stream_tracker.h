// Puts one publisher's messages in order: what arrives live may be lost, doubled or late, the publisher may restart and
// count from 0 again, and a replay overlaps what is live. A plain state machine without socket, clock or decoder; the
// subscriber (subscriber.h) turns its actions into I/O.
//
// Promises
// - Each message is delivered at most once, in order of its number. Between two deliveries nothing is missing unless a
//   Gap or a Restarted stands between them.
// - With a replay socket, a hole is asked for first; live messages wait meanwhile, within a bound. A Gap is told only
//   when the publisher no longer has it, or does not answer.
// - A restart is noticed although numbers may fit by chance: after each connect, each hole, and while it is quiet, the
//   tracker asks for the last message it delivered and compares its content. (Without a replay socket there is only the
//   number, and the content of a number seen before.)
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"

namespace kvern::engine::events {

struct TrackerOptions {
  bool replay = false;  // there is a socket to ask
  std::size_t held_messages_max = 4096;
  std::size_t held_bytes_max = std::size_t{32} << 20U;
  Duration replay_timeout = std::chrono::seconds(1);  // without anything useful
  unsigned replay_attempts = 4;                       // until a hole is given up
  Duration backoff_min = std::chrono::milliseconds(10);
  Duration backoff_max = std::chrono::seconds(5);
  Duration probe_min = std::chrono::milliseconds(100);  // quiet time until it asks; doubles up to
  Duration probe_max = std::chrono::seconds(5);
};

// Inputs.
struct Live {
  std::uint64_t sequence = 0;
  std::string payload;
};
struct Replayed {
  std::uint64_t sequence = 0;
  std::string payload;
};
struct ReplayEnded {};
/// The transport to the publisher was made, again or for the first time. Before any message that comes over it.
struct Connected {};
/// It broke. Before any replay by another life of the publisher.
struct Disconnected {};
/// Time passed; nothing else happened.
struct Tick {};
using TrackerInput = std::variant<Live, Replayed, ReplayEnded, Connected, Disconnected, Tick>;

// Actions, in order.
struct Deliver {
  std::uint64_t sequence = 0;
  std::string payload;
};
/// Messages [from, to) will not come. from == to: what follows could not be shown to go on from what was.
struct Gap {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const Gap&) const = default;
};
/// What follows is of another life of the publisher, from its number 0 on.
struct Restarted {};
/// Ask for everything from this number on. `fresh`: over a new connection, since an older answer may still be coming.
struct AskReplay {
  std::uint64_t from = 0;
  bool fresh = false;
};
using TrackerAction = std::variant<Deliver, Gap, Restarted, AskReplay>;

struct TrackerStats {
  std::uint64_t delivered = 0;
  std::uint64_t duplicates = 0;    // dropped, were delivered before
  std::uint64_t late = 0;          // dropped, a Gap or Restarted was told for them
  std::uint64_t held_dropped = 0;  // no room while waiting for a replay; replayed or told later
  std::uint64_t gaps = 0;
  std::uint64_t restarts = 0;
  std::uint64_t asked = 0;
  std::uint64_t unanswered = 0;
};

class StreamTracker {
 public:
  explicit StreamTracker(const TrackerOptions& options) : options_(options), probe_(options.probe_min) {}

  /// Once, before anything else.
  void start(TimePoint now, std::vector<TrackerAction>& out);
  void step(TimePoint now, TrackerInput input, std::vector<TrackerAction>& out);
  /// When the next Tick is due at the latest; TimePoint::max() for never.
  TimePoint deadline() const { return deadline_; }

  /// The number that comes next.
  std::uint64_t next() const { return next_; }
  /// Lives of the publisher, from 1.
  std::uint64_t incarnation() const { return 1 + stats_.restarts; }
  const TrackerStats& stats() const { return stats_; }

 private:
  using Actions = std::vector<TrackerAction>;
  enum class Mode : std::uint8_t {
    kLive,     // messages pass
    kAsking,   // a replay is under way; what is live is held
    kBackoff,  // it failed, and will be tried again
  };
  struct Seen {
    std::uint64_t sequence = 0;
    std::uint64_t print = 0;
  };
  enum class Known : std::uint8_t { kSame, kOther, kSkipped, kForgotten };

  void live(TimePoint now, Live message, Actions& out);
  void live_from_the_past(TimePoint now, Live message, std::uint64_t print, Actions& out);
  void replayed(TimePoint now, Replayed message, Actions& out);
  /// False when the message was the one to compare, or showed that all has to be asked for anew.
  bool compare_first(TimePoint now, const Replayed& message, std::uint64_t print, Actions& out);
  void replay_ended(TimePoint now, Actions& out);
  void connected(TimePoint now, Actions& out);
  void disconnected();
  void tick(TimePoint now, Actions& out);

  void ask(TimePoint now, Actions& out);
  /// Whether it replays anything at all.
  void explore(TimePoint now, Actions& out);
  void question(TimePoint now, std::uint64_t from, Actions& out);
  void give_up(TimePoint now, Actions& out);
  void go_live(TimePoint now);
  void restart(Actions& out);
  void restart_by_replay(Actions& out);
  /// What came live may be of another life than what is replayed now: it is asked for instead.
  void doubt_live();
  void forget_held();
  void hold(Live message);
  void deliver(std::uint64_t sequence, std::string payload, std::uint64_t print, Actions& out);
  void deliver_held(Actions& out);
  void skip_to(std::uint64_t sequence, Actions& out);
  void tell_gap(std::uint64_t to, Actions& out);
  Known known(std::uint64_t sequence, std::uint64_t print) const;
  bool knows_last() const { return !seen_.empty() && seen_.back().sequence + 1 == next_; }
  /// One past the highest number seen live, or next().
  std::uint64_t live_end() const { return std::max(next_, live_end_); }

  const TrackerOptions options_;
  Mode mode_ = Mode::kLive;
  TimePoint deadline_ = TimePoint::max();
  Duration probe_;
  std::uint64_t next_ = 0;
  std::uint64_t live_end_ = 0;
  std::deque<Seen> seen_;  // the last delivered, bounded
  std::map<std::uint64_t, std::string> held_;
  std::size_t held_bytes_ = 0;

  // The replay under way.
  bool unended_ = false;        // its answer may still be coming, whatever mode_ says
  bool compares_ = false;       // its first message is the last one delivered
  bool explores_ = false;       // anything it brings shows another publisher
  bool first_came_ = false;     // and has come, or another in its place
  bool progressed_ = false;     // something of it was delivered
  std::uint64_t ask_end_ = 0;   // live_end() when it was asked for
  unsigned links_ = 0;          // connections there are
  bool link_is_old_ = false;    // to a publisher that is gone: what it brings is dropped until the next one
  unsigned attempts_ = 0;       // in vain, for what is asked now
  unsigned failures_ = 0;       // in a row
  bool ask_again_ = false;      // something happened that this answer may not know
  bool must_compare_ = false;   // the publisher may be another one
  bool replay_proven_ = false;  // this publisher has replayed something
  TrackerStats stats_;
};

}  // namespace kvern::engine::events
