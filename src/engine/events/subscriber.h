// Follows the KV events of one worker: vLLM, SGLang or kvern's own. Each batch comes once and in order, with what is
// missing told in its place. stream_tracker.h orders what comes, this is its I/O; docs/kv-events.md has the whole.
//
// The sockets belong to a thread of its own; updates wait in a bounded queue for one consumer. When that is full the
// thread stops reading: ZeroMQ's buffers fill, the publisher drops, the hole shows in the numbers and is replayed when
// there is room again, or told as a Gap.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"
#include "engine/events/codec.h"
#include "engine/events/stream_tracker.h"

namespace kvern::engine::events {

struct SubscriberOptions {
  /// Where the publisher is, or with `bind` where publishers connect to (one at a time: their numbers are one stream).
  std::string endpoint;
  bool bind = false;
  std::string topic;            // a prefix; empty: all
  std::string replay_endpoint;  // always connected to. Empty: no replay
  std::size_t updates_max = 1024;
  std::size_t update_bytes_max = std::size_t{64} << 20U;  // of their payloads
  std::size_t message_bytes_max = std::size_t{8} << 20U;  // a peer that sends more is disconnected
  int unread_messages_max = 1000;                         // in ZeroMQ's buffer
  TrackerOptions tracking;                                // `replay` is set by replay_endpoint
  /// Called on the thread when updates come where none waited. It must only pass the word on.
  std::function<void()> on_ready;
};

/// A batch, or a notice about the stream. After a Gap the consumer's picture of the worker may hold blocks that are
/// gone and lack some that are there; after Restarted all of it is void.
struct Update {
  std::uint64_t incarnation = 1;  // lives of the publisher, counted here
  std::uint64_t sequence = 0;     // of the batch, or of the first one that is missing
  std::variant<kv::KvEventBatch, Gap, Restarted> what;
};

struct SubscriberStats {
  TrackerStats stream;
  std::uint64_t batches = 0;
  std::uint64_t malformed = 0;    // messages with wrong frames, skipped
  std::uint64_t undecodable = 0;  // payloads that are no events: each is told as a Gap of one
  std::uint64_t unknown_events = 0;
  std::uint64_t connects = 0;
  std::uint64_t disconnects = 0;
  std::uint64_t waiting = 0;  // updates in the queue now
  std::uint64_t incarnation = 1;
  std::uint64_t next_sequence = 0;
};

/// Thread-safe, for one consumer. Destruction ends the thread; updates not taken are lost.
class Subscriber {
 public:
  /// Errors as Publisher::create's.
  static Result<std::unique_ptr<Subscriber>> create(const SubscriberOptions& options);
  virtual ~Subscriber() = default;

  /// The oldest update; waits at most `patience` for one.
  virtual std::optional<Update> next(std::chrono::milliseconds patience) = 0;
  std::optional<Update> try_next() { return next(std::chrono::milliseconds(0)); }

  virtual const std::string& endpoint() const = 0;
  virtual SubscriberStats stats() const = 0;
};

}  // namespace kvern::engine::events
