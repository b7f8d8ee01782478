// Publishes an engine's KV events over ZeroMQ as vLLM does, so that any index which follows vLLM follows kvern: PUB
// messages [topic, sequence number, payload], and a ROUTER socket that replays what a subscriber missed.
// docs/kv-events.md has the wire and what happens at each bound.
//
// Promises
// - on_kv_events never waits: it puts the batch into a bounded queue (a mutex, and one eventfd write when the thread
//   sleeps). Everything else is on a thread of its own.
// - Sequence numbers start at 0 and have no holes. A slow subscriber loses messages, which is counted; it sees the hole
//   and asks for a replay.
// - A replay tells the whole truth: who asks for more than the buffer holds gets the state before it first, as
//   AllBlocksCleared and BlockStored, under the sequence number before the buffer's first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/events/codec.h"
#include "kv/kv_event.h"

namespace kvern::engine::events {

struct PublisherOptions {
  /// `tcp://HOST:PORT`, `ipc://PATH`. Port `*`: a free one. Host `*`: every interface.
  std::string endpoint = "tcp://127.0.0.1:5557";
  /// Absent: as vLLM decides, bind with a `*` or `::` in it or over ipc, else connect to a subscriber that binds.
  std::optional<bool> bind;
  /// Always bound. Empty: no replay.
  std::string replay_endpoint;
  std::string topic;
  std::optional<std::int32_t> data_parallel_rank = 0;
  WireStyle style = WireStyle::kVllmMaps;
  /// The replay buffer holds the last batches, within both bounds.
  std::size_t replay_batches_max = 10'000;
  std::size_t replay_bytes_max = std::size_t{64} << 20U;
  /// Batches between engine and thread; beyond it on_kv_events refuses.
  std::size_t queue_batches_max = 4096;
  /// Messages a subscriber may be behind before it loses some.
  int subscriber_messages_max = 10'000;
};

struct PublisherStats {
  std::uint64_t batches = 0;  // published
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;            // of payloads
  std::uint64_t batches_lost = 0;     // at least one subscriber was too slow for these
  std::uint64_t batches_refused = 0;  // queue full; a snapshot followed
  std::uint64_t replays = 0;          // requests answered
  std::uint64_t replays_refused = 0;  // malformed, too many at once, or the asker stopped reading
  std::uint64_t batches_replayed = 0;
  std::uint64_t buffered_batches = 0;  // now
  std::uint64_t buffered_bytes = 0;    // now
};

/// Thread-safe. Destruction publishes what is queued, gives it at most a second to leave, and ends the thread.
class Publisher : public kv::KvEventSink {
 public:
  /// kInvalidRequest for an endpoint that cannot be, kUnavailable for one that is taken; the message is for the
  /// operator and says what to do.
  static Result<std::unique_ptr<Publisher>> create(const PublisherOptions& options);

  /// The endpoints with their real ports. `replay_endpoint` is empty without replay.
  virtual const std::string& endpoint() const = 0;
  virtual const std::string& replay_endpoint() const = 0;
  virtual PublisherStats stats() const = 0;
};

}  // namespace kvern::engine::events
