// Where answers are kept that a client may ask for again: the port, of which app/store is the adapter. A stored answer
// is opaque text in its dialect's own form, so what is handed out later is byte for byte what was sent, and a dialect
// continues a conversation by reading it as if the client had sent it. Nothing of keys or headers is in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/result.h"
#include "base/strong_id.h"

namespace kvern::pipeline {

/// One turn of a conversation, whole. A value.
struct StoredResponse {
  RequestId id;
  std::string tenant;
  std::optional<RequestId> previous;  // the turn it continues
  bool background = false;            // it went on without its client, and `events` can be replayed
  std::string input;                  // what the client added in this turn
  std::string answer;                 // the response, as it was sent
  std::string events;                 // of a background answer: the stream, event by event
  std::uint64_t first_event = 0;      // the number of the first of them; those before were given up
  bool operator==(const StoredResponse&) const = default;
};

/// For an id that is not there, or not the tenant's.
inline Error response_not_found() {
  return fail(ErrorCode::kNotFound,
              "There is no stored response of this id: it was not stored, was deleted, or has expired.");
}

/// Thread-safe. Each call returns at once; its callback is posted to `home` exactly once, in the order of the calls,
/// unless the store ends before (what was to be written is written then, too). Errors say what a person can do:
/// kOverloaded when too much waits, kUnavailable when the disk does not take it, kNotFound.
class ResponseStore {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~ResponseStore() = default;

  /// Writes a response, or replaces one of the same id and tenant. When the callback comes, no end of this process
  /// loses it. It joins the conversation of `previous` where that is still there.
  virtual void put(StoredResponse response, Executor& home, Callback<void> done) = 0;
  /// kNotFound also where it is another tenant's.
  virtual void find(std::string tenant, RequestId id, Executor& home, Callback<StoredResponse> done) = 0;
  /// A response and all it continues, the oldest first, without their events. kNotFound where one of them is gone,
  /// kTooLarge beyond `bytes_max`.
  virtual void history(std::string tenant, RequestId id, std::uint64_t bytes_max, Executor& home,
                       Callback<std::vector<StoredResponse>> done) = 0;
  /// kNotFound where there is none.
  virtual void erase(std::string tenant, RequestId id, Executor& home, Callback<void> done) = 0;
};

}  // namespace kvern::pipeline
