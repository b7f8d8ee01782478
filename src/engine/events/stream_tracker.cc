#include "engine/events/stream_tracker.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace kvern::engine::events {
namespace {

constexpr std::size_t kSeenMax = 256;

// Tells contents apart; a timestamp is part of each, so two lives of a publisher do not agree by chance.
std::uint64_t print_of(const std::string& payload) { return XXH3_64bits(payload.data(), payload.size()); }

}  // namespace

void StreamTracker::start(TimePoint now, Actions& out) {
  if (options_.replay) ask(now, out);
}

void StreamTracker::step(TimePoint now, TrackerInput input, Actions& out) {
  if (auto* message = std::get_if<Live>(&input)) {
    live(now, std::move(*message), out);
  } else if (auto* old = std::get_if<Replayed>(&input)) {
    replayed(now, std::move(*old), out);
  } else if (std::holds_alternative<ReplayEnded>(input)) {
    replay_ended(now, out);
  } else if (std::holds_alternative<Connected>(input)) {
    connected(now, out);
  } else if (std::holds_alternative<Disconnected>(input)) {
    disconnected();
  } else {
    tick(now, out);
  }
}

// --- Live ---------------------------------------------------------------------------------------------------------

void StreamTracker::live(TimePoint now, Live message, Actions& out) {
  if (link_is_old_) {
    ++stats_.late;
    return;
  }
  const std::uint64_t print = print_of(message.payload);
  if (message.sequence < next_) return live_from_the_past(now, std::move(message), print, out);
  live_end_ = std::max(live_end_, message.sequence + 1);
  if (mode_ != Mode::kLive) return hold(std::move(message));
  if (options_.replay && (message.sequence > next_ || must_compare_)) {
    hold(std::move(message));
    return ask(now, out);
  }
  skip_to(message.sequence, out);
  deliver(message.sequence, std::move(message.payload), print, out);
  go_live(now);
}

void StreamTracker::live_from_the_past(TimePoint now, Live message, std::uint64_t print, Actions& out) {
  const Known known = this->known(message.sequence, print);
  if (known == Known::kSame) {
    ++stats_.duplicates;
    return;
  }
  if (options_.replay) {
    // A restart, or a straggler: the publisher will tell, and replay what it is.
    if (known == Known::kOther) {
      restart(out);
      live_end_ = message.sequence + 1;
      hold(std::move(message));
      return ask(now, out);
    }
    must_compare_ = true;
    if (mode_ == Mode::kLive) return ask(now, out);
    ask_again_ = true;
    return;
  }
  if (known == Known::kSkipped) {
    ++stats_.late;
    return;
  }
  restart(out);
  skip_to(message.sequence, out);
  deliver(message.sequence, std::move(message.payload), print, out);
}

void StreamTracker::hold(Live message) {
  if (held_.size() >= options_.held_messages_max || held_bytes_ + message.payload.size() > options_.held_bytes_max) {
    ++stats_.held_dropped;  // live_end_ remembers that it exists
    return;
  }
  std::string& place = held_[message.sequence];
  held_bytes_ += message.payload.size() - place.size();
  place = std::move(message.payload);
}

void StreamTracker::connected(TimePoint now, Actions& out) {
  probe_ = options_.probe_min;
  ++links_;
  link_is_old_ = false;
  if (!options_.replay) return;
  must_compare_ = must_compare_ || knows_last();
  forget_held();  // they may be of another life than what is to come; the publisher has them
  attempts_ = 0;
  // An answer under way may be of the life before.
  ask(now, out);
}

void StreamTracker::disconnected() {
  links_ -= links_ > 0 ? 1 : 0;
  // With nothing to compare, an answer from now on cannot be told from one of the next life.
  if (options_.replay && links_ == 0 && !knows_last()) doubt_live();
}

// --- Replay -------------------------------------------------------------------------------------------------------

void StreamTracker::ask(TimePoint now, Actions& out) {
  compares_ = knows_last();
  explores_ = false;
  question(now, compares_ ? next_ - 1 : next_, out);
}

void StreamTracker::explore(TimePoint now, Actions& out) {
  compares_ = false;
  explores_ = true;
  question(now, 0, out);
}

void StreamTracker::question(TimePoint now, std::uint64_t from, Actions& out) {
  mode_ = Mode::kAsking;
  first_came_ = progressed_ = ask_again_ = false;
  ask_end_ = live_end();
  deadline_ = now + options_.replay_timeout;
  ++stats_.asked;
  out.emplace_back(AskReplay{from, std::exchange(unended_, true)});
}

void StreamTracker::replayed(TimePoint now, Replayed message, Actions& out) {
  if (mode_ != Mode::kAsking) return;
  const std::uint64_t print = print_of(message.payload);
  if (!first_came_ && !compare_first(now, message, print, out)) return;
  if (message.sequence > next_ && !ask_again_) deliver_held(out);
  if (message.sequence < next_) return;
  if (message.sequence > next_) {
    // Replies get lost where a socket's buffer is short: as long as asking brings something, ask for the rest.
    if (progressed_) return ask(now, out);
    skip_to(message.sequence, out);
  }
  deliver(message.sequence, std::move(message.payload), print, out);
  progressed_ = true;
  deadline_ = now + options_.replay_timeout;
}

bool StreamTracker::compare_first(TimePoint now, const Replayed& message, std::uint64_t print, Actions& out) {
  if (explores_) {
    // It replays, but not the last it sent.
    restart_by_replay(out);
    explores_ = false;
  }
  const bool last_is_asked = compares_;
  if (last_is_asked && message.sequence + 1 < next_) return false;  // not asked for
  first_came_ = replay_proven_ = true;
  deadline_ = now + options_.replay_timeout;
  if (!last_is_asked) return true;
  if (message.sequence + 1 == next_) {
    if (seen_.back().print == print) {
      must_compare_ = false;
    } else {
      restart_by_replay(out);
      ask(now, out);
    }
    return false;
  }
  // The last one delivered has left the publisher's buffer, or never was in it.
  doubt_live();
  tell_gap(message.sequence, out);
  must_compare_ = false;
  return true;
}

void StreamTracker::replay_ended(TimePoint now, Actions& out) {
  if (mode_ != Mode::kAsking) return;
  attempts_ = failures_ = 0;
  unended_ = false;
  if (compares_ && !first_came_) {
    // It does not have what it sent last. So it is another one, if it replays at all.
    if (!replay_proven_) return explore(now, out);
    restart_by_replay(out);
    return ask(now, out);
  }
  if (ask_again_) return ask(now, out);
  if (explores_ && must_compare_) tell_gap(next_, out);
  must_compare_ = explores_ = false;
  deliver_held(out);
  while (next_ < live_end()) {
    // A hole. What was seen before asking and is not in the answer is lost; of what came later it may not have known.
    const std::uint64_t there = held_.empty() ? live_end() : held_.begin()->first;
    if (there > ask_end_) return ask(now, out);
    skip_to(there, out);
    deliver_held(out);
  }
  go_live(now);
}

void StreamTracker::tick(TimePoint now, Actions& out) {
  if (now < deadline_) return;
  if (mode_ == Mode::kLive) {
    probe_ = std::min(2 * probe_, options_.probe_max);
    return ask(now, out);
  }
  if (mode_ == Mode::kBackoff) return ask(now, out);
  ++stats_.unanswered;
  ++attempts_;
  if (attempts_ >= options_.replay_attempts) return give_up(now, out);
  mode_ = Mode::kBackoff;
  const unsigned doublings = std::min(failures_++, 20U);
  deadline_ = now + std::min(options_.backoff_min * (1U << doublings), options_.backoff_max);
}

void StreamTracker::give_up(TimePoint now, Actions& out) {
  attempts_ = 0;
  ++failures_;
  if (must_compare_ && next_ < live_end()) {
    tell_gap(next_, out);
    must_compare_ = false;
  }
  while (next_ < live_end()) {
    skip_to(held_.empty() ? live_end() : held_.begin()->first, out);
    deliver_held(out);
  }
  probe_ = options_.probe_max;
  go_live(now);
}

void StreamTracker::go_live(TimePoint now) {
  mode_ = Mode::kLive;
  deadline_ = options_.replay ? now + probe_ : TimePoint::max();
}

// --- Order --------------------------------------------------------------------------------------------------------

void StreamTracker::restart(Actions& out) {
  ++stats_.restarts;
  out.emplace_back(Restarted{});
  next_ = 0;
  seen_.clear();
  forget_held();  // of either life: the new one's are asked for
  must_compare_ = replay_proven_ = false;
  probe_ = options_.probe_min;
}

void StreamTracker::restart_by_replay(Actions& out) {
  restart(out);
  doubt_live();
}

void StreamTracker::doubt_live() {
  forget_held();
  // Where the replay socket is connected again and the other is not, what still comes there is of the life before.
  link_is_old_ = links_ == 0;
}

void StreamTracker::forget_held() {
  held_.clear();
  held_bytes_ = 0;
  live_end_ = ask_end_ = 0;
}

void StreamTracker::skip_to(std::uint64_t sequence, Actions& out) {
  if (sequence > next_) tell_gap(sequence, out);
}

void StreamTracker::tell_gap(std::uint64_t to, Actions& out) {
  out.emplace_back(Gap{next_, to});
  ++stats_.gaps;
  next_ = to;
}

void StreamTracker::deliver(std::uint64_t sequence, std::string payload, std::uint64_t print, Actions& out) {
  if (const auto held = held_.find(sequence); held != held_.end()) {
    held_bytes_ -= held->second.size();
    held_.erase(held);
  }
  seen_.push_back(Seen{sequence, print});
  if (seen_.size() > kSeenMax) seen_.pop_front();
  next_ = sequence + 1;
  ++stats_.delivered;
  out.emplace_back(Deliver{sequence, std::move(payload)});
}

void StreamTracker::deliver_held(Actions& out) {
  while (!held_.empty() && held_.begin()->first <= next_) {
    auto node = held_.extract(held_.begin());
    held_bytes_ -= node.mapped().size();
    if (node.key() < next_) {
      ++stats_.duplicates;
      continue;
    }
    const std::uint64_t print = print_of(node.mapped());
    deliver(node.key(), std::move(node.mapped()), print, out);
  }
}

StreamTracker::Known StreamTracker::known(std::uint64_t sequence, std::uint64_t print) const {
  if (seen_.empty() || sequence < seen_.front().sequence) return Known::kForgotten;
  const auto found = std::ranges::lower_bound(seen_, sequence, {}, &Seen::sequence);
  if (found == seen_.end() || found->sequence != sequence) return Known::kSkipped;
  return found->print == print ? Known::kSame : Known::kOther;
}

}  // namespace kvern::engine::events
