// What a publisher can still tell: its last messages as they went out, and the blocks that were there before them. So
// a follower who missed more than the buffer holds, or comes new, gets the whole truth: the state before the first
// message, then the messages. A plain value of one thread; appending costs a decode of what leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/events/codec.h"
#include "kv/kv_replica.h"

namespace kvern::engine::events {

class ReplayBuffer {
 public:
  /// At least the last message is kept, whatever the bounds.
  ReplayBuffer(std::size_t messages_max, std::size_t bytes_max, WireStyle style)
      : messages_max_(messages_max), bytes_max_(bytes_max), style_(style) {}

  /// The payload of message end().
  void append(std::string payload);

  /// Messages [first(), end()) are here.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + payloads_.size(); }
  const std::string& payload(std::uint64_t sequence) const { return payloads_[sequence - first_]; }
  std::size_t bytes() const { return bytes_; }

  /// The blocks before first() as payloads, AllBlocksCleared first; at most `messages_max` >= 1 of them, of a megabyte
  /// each if that suffices.
  std::vector<std::string> state_before(std::size_t messages_max) const;

 private:
  void drop_first();

  const std::size_t messages_max_;
  const std::size_t bytes_max_;
  const WireStyle style_;
  std::uint64_t first_ = 0;
  std::deque<std::string> payloads_;
  std::size_t bytes_ = 0;
  kv::KvReplica before_;  // of what left
  double before_s_ = 0;   // its time
  std::optional<std::int32_t> rank_;
};

/// Cuts a list of events where a message reaches about `bytes`.
std::vector<std::vector<kv::KvEvent>> cut_into_messages(std::vector<kv::KvEvent> events, std::size_t bytes);
/// Roughly what they take as payload.
std::size_t payload_bytes(const std::vector<kv::KvEvent>& events);

}  // namespace kvern::engine::events
