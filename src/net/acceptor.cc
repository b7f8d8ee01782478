#include "net/acceptor.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "net/response_head.h"

namespace kvern::net {
namespace {

using boost::asio::posix::stream_descriptor;

/// Connections taken in one turn.
constexpr int kBatch = 64;
/// Connections that get a 503 and a proper close at one time; more get the 503 and a short one.
constexpr std::uint32_t kRefusingMax = 32;
/// Rest after a turn that only refused: bounds what a storm of connections costs (64 refusals in 50 ms are about 2 % of
/// a core) and the time to recover.
constexpr std::chrono::milliseconds kPause{50};

UniqueFd open_reserve() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Acceptor::Acceptor(UniqueFd listener, std::size_t connections_max, std::vector<std::shared_ptr<Shard>> shards,
                   Loop& loop, Handler& handler, ServerCounters& counters)
    : connections_max_(connections_max),
      shards_(std::move(shards)),
      loop_(loop),
      handler_(handler),
      counters_(counters),
      listener_(
          std::make_unique<stream_descriptor>(*static_cast<boost::asio::io_context*>(loop.native()), listener.get())),
      pause_(*static_cast<boost::asio::io_context*>(loop.native())),
      reserve_(open_reserve()) {
  static_cast<void>(listener.release());
}

void Acceptor::start() { arm(); }

void Acceptor::close() {
  if (!listener_) return;
  for (int i = 0; i < 16 * kBatch; ++i) {
    const Outcome outcome = accept_one();
    if (outcome == Outcome::kNone || outcome == Outcome::kNoDescriptor) break;
  }
  listener_.reset();
  pause_.cancel();
  reserve_.reset();
}

void Acceptor::arm() {
  listener_->async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this()](const boost::system::error_code& error) {
                          if (!error && self->listener_) self->accept_some();
                        });
}

void Acceptor::accept_some() {
  int refused = 0;
  for (int i = 0; i < kBatch; ++i) {
    Outcome outcome = accept_one();
    if (outcome == Outcome::kNoDescriptor) {
      outcome = shed_one();
      if (outcome == Outcome::kNoDescriptor) return pause();
      refused = kBatch;  // rest after this turn: closing needs time anyway
    }
    if (outcome == Outcome::kNone) break;
    if (outcome == Outcome::kRefused) ++refused;
  }
  if (refused >= kBatch) return pause();
  arm();
}

Acceptor::Outcome Acceptor::accept_one() {
  const int fd = ::accept4(listener_->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: return Outcome::kNoDescriptor;
      case EAGAIN: return Outcome::kNone;
      default: return Outcome::kAccepted;  // that connection failed before we took it; on with the next
    }
  }
  UniqueFd socket(fd);
  if (counters_.open.load(std::memory_order_relaxed) < connections_max_) {
    counters_.accepted.fetch_add(1, std::memory_order_relaxed);
    hand_out(std::move(socket), false);
    return Outcome::kAccepted;
  }
  counters_.refused.fetch_add(1, std::memory_order_relaxed);
  if (counters_.refusing.load(std::memory_order_relaxed) < kRefusingMax) {
    counters_.refusing.fetch_add(1, std::memory_order_relaxed);
    hand_out(std::move(socket), true);
  } else {
    refuse_and_close(std::move(socket));
  }
  return Outcome::kRefused;
}

Acceptor::Outcome Acceptor::shed_one() {
  reserve_.reset();
  UniqueFd socket(::accept4(listener_->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const bool got = socket.valid();
  const bool none = !got && errno == EAGAIN;
  if (got) {
    counters_.refused.fetch_add(1, std::memory_order_relaxed);
    refuse_and_close(std::move(socket));
  }
  reserve_ = open_reserve();
  if (got) return Outcome::kRefused;
  return none ? Outcome::kNone : Outcome::kNoDescriptor;
}

void Acceptor::refuse_and_close(UniqueFd socket) {
  const Response response = handler_.refuse(503, "too many connections", {});
  std::string head;
  append_head(head, {response.status, true, false, response.body.size()}, response.headers, shards_.front()->date());
  std::size_t bytes = 0;
  static_cast<void>(send_parts(socket.get(), head, response.body, {}, bytes));
  shutdown_send(socket.get());
  static_cast<void>(
      discard(socket.get(), 1U << 20U, bytes));  // what came already shall not turn the close into a reset
}

void Acceptor::hand_out(UniqueFd socket, bool refuse) {
  // The shard with the fewest connections; of equals the next in turn.
  std::size_t best = next_shard_ % shards_.size();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::size_t candidate = (next_shard_ + i) % shards_.size();
    if (shards_[candidate]->open() < shards_[best]->open()) best = candidate;
  }
  next_shard_ = best + 1;
  const auto& shard = shards_[best];
  shard->take_slot();
  if (&shard->loop() == &loop_) return shard->adopt(std::move(socket), refuse);
  auto shared = std::make_shared<UniqueFd>(std::move(socket));  // std::function copies
  shard->loop().post([shard, shared, refuse] { shard->adopt(std::move(*shared), refuse); });
}

void Acceptor::pause() {
  pause_.expires_after(kPause);
  pause_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->listener_) return;
    if (!self->reserve_.valid()) self->reserve_ = open_reserve();
    self->accept_some();
  });
}

}  // namespace kvern::net
