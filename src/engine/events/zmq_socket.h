// A ZeroMQ socket that never waits, and what a thread needs to wait for several. Errors that depend on the peer are
// values; what is left are bugs of ours (KV_CHECK). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "base/clock.h"

namespace kvern::engine::events {

/// Wakes a thread that waits in wait_for_any(). Any thread may signal.
class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  void signal() const;
  /// Takes back the signals made so far.
  void drain() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

class ZmqSocket {
 public:
  ZmqSocket(zmq::context_t& context, zmq::socket_type type) : socket_(context, type) {}

  void set(int option, int value);
  void set(int option, std::int64_t value);
  void set(int option, std::string_view value);

  /// 0, or ZeroMQ's error number.
  int bind(const std::string& endpoint);
  int connect(const std::string& endpoint);
  /// The real address after bind.
  std::string last_endpoint() const;

  enum class Sent : std::uint8_t {
    kSent,
    kFull,  // no room now
    kGone,  // no such peer, or it went away meanwhile
  };
  Sent send(std::span<const std::string_view> frames);

  enum class Received : std::uint8_t {
    kMessage,
    kNothing,  // none has come
    kTooMany,  // one of more than `frames_max` frames, dropped
  };
  Received receive(std::vector<std::string>& frames, std::size_t frames_max);

  void* handle() { return socket_.handle(); }

 private:
  zmq::socket_t socket_;
};

/// Waits until one of these can be read, at most until `deadline` (TimePoint::max(): no limit).
void wait_for_any(std::span<const zmq_pollitem_t> items, TimePoint now, TimePoint deadline);

}  // namespace kvern::engine::events
