// A server's share of one loop: the connections that live there, their deadlines, the watch for hang-ups, and what they
// use in common (read buffer, date, flush at the end of the turn). Used on its loop only, but for the counters.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/deadline_lists.h"
#include "net/hangup_watch.h"
#include "net/http_server.h"
#include "net/socket.h"

namespace kvern::net {

class Connection;

/// Shared by all shards of a server.
struct ServerCounters {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint32_t> open{0};
  std::atomic<std::uint32_t> exchanges{0};
  /// Connections that only get a 503; they have a bound of their own.
  std::atomic<std::uint32_t> refusing{0};
};

class Shard : public std::enable_shared_from_this<Shard> {
 public:
  Shard(const ServerOptions& options, Loop& loop, Handler& handler, ServerCounters& counters);
  ~Shard();

  /// Begins to watch; on the loop.
  void start();
  /// Counts a connection that is on its way here; any thread. `adopt` must follow.
  void take_slot();
  /// Takes over an accepted socket for which a slot was taken. With `refuse` it gets a 503 and is closed.
  void adopt(UniqueFd socket, bool refuse);
  void drain();
  /// Ends every connection; the shard stays empty.
  void stop();
  std::uint32_t open() const { return open_.load(std::memory_order_relaxed); }
  /// Writes made so far; any thread.
  std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

  // For the connections.
  const ServerOptions& options() const { return options_; }
  const ReaderLimits& limits() const { return limits_; }
  Loop& loop() { return loop_; }
  boost::asio::io_context& io() { return io_; }
  Handler& handler() { return handler_; }
  ServerCounters& counters() { return counters_; }
  HangupWatch& hangups() { return hangups_; }
  bool draining() const { return draining_; }
  void count_write() { writes_.store(writes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  TimePoint now() const { return loop_.clock().now(); }
  /// A buffer for one read, used up before the loop does anything else. One per loop instead of one per connection is
  /// what keeps idle connections small.
  std::string& scratch() { return scratch_; }
  std::string_view date();
  void arm(Deadline& deadline, DeadlineKind kind);
  /// Flushes the connection at the end of this turn.
  void flush_later(std::shared_ptr<Connection> connection);
  /// So much more waits for the turn's end. Where that is a lot, what waits is sent at once.
  void gathered(std::size_t bytes);
  void remove(std::uint64_t id);

 private:
  void release_slot();
  void watch_hangups();
  void start_timer();
  void on_timer();

  const ServerOptions options_;
  ReaderLimits limits_;
  Loop& loop_;
  boost::asio::io_context& io_;
  Handler& handler_;
  ServerCounters& counters_;
  std::atomic<std::uint32_t> open_{0};
  std::atomic<std::uint64_t> writes_{0};  // only the loop's thread adds

  HangupWatch hangups_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> hangup_descriptor_;
  DeadlineLists deadlines_;
  std::unique_ptr<boost::asio::steady_timer> timer_;
  TimePoint timer_at_ = TimePoint::max();  // when it rings; max: it does not run
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::uint64_t next_id_ = 1;
  std::vector<std::shared_ptr<Connection>> flushes_;
  std::size_t gathered_ = 0;  // bytes, about
  std::string scratch_;
  std::string date_;
  std::chrono::seconds date_at_{-1};
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace kvern::net
