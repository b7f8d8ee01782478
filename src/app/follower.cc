#include "app/follower.h"

#include <chrono>
#include <utility>

namespace kvern::app {
namespace {

/// What is written at once, and may then wait in the connection.
constexpr std::size_t kPiece = 64U << 10U;
constexpr std::chrono::milliseconds kLook{5};

}  // namespace

Follower::Follower(RequestId id, std::shared_ptr<net::Exchange> exchange, std::shared_ptr<BackgroundRun> run,
                   std::uint64_t from, std::function<void(int status)> on_over)
    : id_(id), exchange_(std::move(exchange)), run_(std::move(run)), next_(from), on_over_(std::move(on_over)) {}

void Follower::begin(net::Headers headers, std::function<void()> notify) {
  exchange_->on_gone([self = weak_from_this()] {
    if (const auto follower = self.lock()) follower->over(499);
  });
  exchange_->start(200, std::move(headers));
  run_->follow(id_, std::move(notify));
  pull();
}

void Follower::pull() {
  if (!on_over_ || later_) return;
  if (exchange_->behind()) return pull_later();
  std::string bytes;
  const auto reading = run_->read(next_, bytes, kPiece);
  if (reading.gone) {
    // The client is so slow that what it needs next is kept no longer: a gap would look like the whole.
    exchange_->abort();
    return over(499);
  }
  next_ = reading.next;
  if (!bytes.empty()) exchange_->write(bytes);
  if (reading.more) return pull_later();
  if (!reading.over) return;
  exchange_->finish();
  over(200);
}

void Follower::pull_later() {
  later_ = true;
  exchange_->loop().post_after(kLook, [self = weak_from_this()] {
    const auto follower = self.lock();
    if (!follower) return;
    follower->later_ = false;
    follower->pull();
  });
}

void Follower::over(int status) {
  if (!on_over_) return;
  run_->unfollow(id_);
  std::exchange(on_over_, {})(status);
}

}  // namespace kvern::app
