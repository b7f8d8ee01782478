#include "engine/events/zmq_socket.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// libzmq is not built for TSan, which so does not see how it passes messages between threads: only calls from inside
// it are left out. All sharing of our own is by mutex and eventfd.
extern "C" const char* __tsan_default_suppressions();                                           // NOLINT
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }  // NOLINT
#endif
#endif

namespace kvern::engine::events {
namespace {

bool interrupted() { return zmq_errno() == EINTR; }

}  // namespace

Wakeup::Wakeup() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { KV_CHECK(descriptor_ >= 0); }
Wakeup::~Wakeup() { close(descriptor_); }

void Wakeup::signal() const {
  const std::uint64_t one = 1;
  // It fails only when 2^64 - 1 signals wait, which wakes too.
  [[maybe_unused]] const auto written = write(descriptor_, &one, sizeof one);
}

void Wakeup::drain() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = read(descriptor_, &count, sizeof count);
}

void ZmqSocket::set(int option, int value) {
  KV_CHECK(zmq_setsockopt(socket_.handle(), option, &value, sizeof value) == 0);
}
void ZmqSocket::set(int option, std::int64_t value) {
  KV_CHECK(zmq_setsockopt(socket_.handle(), option, &value, sizeof value) == 0);
}
void ZmqSocket::set(int option, std::string_view value) {
  KV_CHECK(zmq_setsockopt(socket_.handle(), option, value.data(), value.size()) == 0);
}

int ZmqSocket::bind(const std::string& endpoint) {
  return zmq_bind(socket_.handle(), endpoint.c_str()) == 0 ? 0 : zmq_errno();
}
int ZmqSocket::connect(const std::string& endpoint) {
  return zmq_connect(socket_.handle(), endpoint.c_str()) == 0 ? 0 : zmq_errno();
}

std::string ZmqSocket::last_endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }

ZmqSocket::Sent ZmqSocket::send(std::span<const std::string_view> frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    while (zmq_send(socket_.handle(), frames[i].data(), frames[i].size(), flags) < 0) {
      if (interrupted()) continue;
      const int error = zmq_errno();
      KV_CHECK(error == EAGAIN || error == EHOSTUNREACH);
      // Once the first frame is in, ZeroMQ takes the others or drops the whole.
      return error == EAGAIN && i == 0 ? Sent::kFull : Sent::kGone;
    }
  }
  return Sent::kSent;
}

ZmqSocket::Received ZmqSocket::receive(std::vector<std::string>& frames, std::size_t frames_max) {
  frames.clear();
  bool too_many = false;
  zmq::message_t frame;
  for (bool more = true; more; more = frame.more()) {
    while (zmq_msg_recv(frame.handle(), socket_.handle(), ZMQ_DONTWAIT) < 0) {
      if (interrupted()) continue;
      KV_CHECK(zmq_errno() == EAGAIN);
      return Received::kNothing;  // only before the first frame: messages come whole
    }
    if (frames.size() < frames_max) {
      frames.emplace_back(static_cast<const char*>(frame.data()), frame.size());
    } else {
      too_many = true;
    }
  }
  return too_many ? Received::kTooMany : Received::kMessage;
}

void wait_for_any(std::span<const zmq_pollitem_t> items, TimePoint now, TimePoint deadline) {
  long timeout_ms = -1;
  if (deadline != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
    timeout_ms = static_cast<long>(std::clamp<std::int64_t>(left, 0, 60'000));
  }
  std::vector<zmq_pollitem_t> polled(items.begin(), items.end());
  const int ready = zmq_poll(polled.data(), static_cast<int>(polled.size()), timeout_ms);
  KV_CHECK(ready >= 0 || interrupted());
}

}  // namespace kvern::engine::events
