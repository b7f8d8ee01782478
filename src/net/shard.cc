#include "net/shard.h"

#include <chrono>
#include <utility>

#include "net/connection.h"
#include "net/response_head.h"

namespace kvern::net {
namespace {

/// 256 KB a read: a 32 MB body in about 128 reads.
constexpr std::size_t kScratchBytes = 256U << 10U;
/// What all streams of a loop may gather in one turn: beyond it, it leaves early. So a burst (a thousand answers that
/// begin at once) does not grow the process by its whole size.
constexpr std::size_t kGatherBytes = 64U << 10U;
/// How long a closing connection waits for its client to close, and discards what still comes.
constexpr std::chrono::seconds kLingerFor{2};

}  // namespace

Shard::Shard(const ServerOptions& options, Loop& loop, Handler& handler, ServerCounters& counters)
    : options_(options),
      loop_(loop),
      io_(*static_cast<boost::asio::io_context*>(loop.native())),
      handler_(handler),
      counters_(counters),
      deadlines_(
          {options.idle_deadline, options.header_deadline, options.body_deadline, options.write_deadline, kLingerFor}),
      timer_(std::make_unique<boost::asio::steady_timer>(io_)),
      scratch_(kScratchBytes, '\0') {
  limits_.header_bytes_max = options.header_bytes_max;
  limits_.header_fields_max = options.header_fields_max;
  limits_.body_bytes_max = options.body_bytes_max;
  hangup_descriptor_ = std::make_unique<boost::asio::posix::stream_descriptor>(io_, hangups_.fd());
}

Shard::~Shard() {
  if (hangup_descriptor_) hangup_descriptor_->release();
}

void Shard::start() { watch_hangups(); }

void Shard::adopt(UniqueFd socket, bool refuse) {
  if (stopped_) {
    release_slot();
    return;
  }
  const std::uint64_t id = next_id_++;
  tune_connection(socket.get(), options_.write_deadline);
  auto connection = std::make_shared<Connection>(*this, id, socket.get());
  const int fd = socket.release();
  connections_.emplace(id, connection);
  if (!hangups_.add(fd, id)) return connection->cut(Connection::Tell::kNot);
  if (refuse) {
    connection->start_refusing();
  } else {
    connection->start();
    if (draining_) connection->on_drain();  // it was on its way when the drain began
  }
}

void Shard::take_slot() {
  open_.fetch_add(1, std::memory_order_relaxed);
  counters_.open.fetch_add(1, std::memory_order_relaxed);
}

void Shard::release_slot() {
  open_.fetch_sub(1, std::memory_order_relaxed);
  counters_.open.fetch_sub(1, std::memory_order_relaxed);
}

void Shard::remove(std::uint64_t id) {
  if (connections_.erase(id) != 0) release_slot();
}

void Shard::drain() {
  draining_ = true;
  for (const auto& [id, connection] : std::unordered_map(connections_)) connection->on_drain();
}

void Shard::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& [id, connection] : std::unordered_map(connections_)) connection->cut(Connection::Tell::kNow);
  flushes_.clear();
  timer_.reset();
  hangup_descriptor_->release();
  hangup_descriptor_.reset();
}

std::string_view Shard::date() {
  const auto second = loop_.clock().unix_time();
  if (second != date_at_) {
    date_ = http_date(second);
    date_at_ = second;
  }
  return date_;
}

void Shard::flush_later(std::shared_ptr<Connection> connection) {
  if (connection->flush_armed()) return;
  connection->set_flush_armed();
  flushes_.push_back(std::move(connection));
  if (flushes_.size() > 1) return;
  loop_.after_turn([self = shared_from_this()] {
    self->gathered_ = 0;
    std::vector<std::shared_ptr<Connection>> flushes;
    flushes.swap(self->flushes_);
    for (const auto& each : flushes) each->flush();
  });
}

void Shard::gathered(std::size_t bytes) {
  gathered_ += bytes;
  if (gathered_ < kGatherBytes) return;
  gathered_ = 0;
  // Only sent: what follows from an end of an answer waits for the turn's end, as no handler expects it in between.
  for (std::size_t i = 0; i < flushes_.size(); ++i) flushes_[i]->send_early();
}

void Shard::watch_hangups() {
  hangup_descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                 [self = shared_from_this()](const boost::system::error_code& error) {
                                   if (error || self->stopped_) return;
                                   self->hangups_.collect([&](std::uint64_t id, Hangup how) {
                                     const auto found = self->connections_.find(id);
                                     if (found == self->connections_.end()) return;
                                     const auto connection = found->second;  // outlives its own removal
                                     connection->on_hangup(how);
                                   });
                                   if (!self->stopped_) self->watch_hangups();
                                 });
}

void Shard::arm(Deadline& deadline, DeadlineKind kind) {
  deadlines_.arm(deadline, kind, now());
  if (deadline.at < timer_at_) start_timer();
}

void Shard::start_timer() {
  const auto next = deadlines_.next();
  if (!next) {
    timer_at_ = TimePoint::max();
    return;
  }
  timer_at_ = *next;
  timer_->expires_after(*next - now());
  timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && !self->stopped_) self->on_timer();
  });
}

void Shard::on_timer() {
  const TimePoint passed = now();
  while (Deadline* deadline = deadlines_.pop_passed(passed)) {
    const auto connection = static_cast<Connection*>(deadline)->shared_from_this();
    connection->on_deadline(deadline->kind);
  }
  if (!stopped_) start_timer();
}

}  // namespace kvern::net
