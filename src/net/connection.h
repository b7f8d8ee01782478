// One server connection: reads a request, has it served, sends the answer, then the next. Lives on its shard's loop.
//
//   kReading --request complete--> kServing --answer complete--> kReading ... --last answer--> kLinger --> kClosed
//
// It reads one request at a time and only when its answers are taken, so what a client can make it hold is one head (or
// one body) and a bounded surplus. kLinger: everything is sent and the sending
// side shut, and what still comes is discarded for a while, since closing with unread bytes would reset the connection
// and could take the answer with it.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/deadline_lists.h"
#include "net/hangup_watch.h"
#include "net/http_server.h"

namespace kvern::net {

class Shard;
class ServerExchange;

class Connection final : public Deadline, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shard& shard, std::uint64_t id, int fd);
  ~Connection();

  // For the shard.
  void start();
  void start_refusing();
  void on_deadline(DeadlineKind kind);
  void on_hangup(Hangup how);
  void on_drain();
  void flush();
  /// Sends what waits for flush(), which follows all the same.
  void send_early();
  bool flush_armed() const { return flush_armed_; }
  void set_flush_armed() { flush_armed_ = true; }
  /// Closes the socket; an exchange under way is told, at once or (from within its own calls) a little later.
  enum class Tell { kNow, kLater, kNot };
  void cut(Tell tell);

  // For the exchange.
  Loop& loop() { return loop_; }
  void respond(Response response);
  void start_stream(int status, const Headers& headers);
  void write(std::string_view bytes);
  void finish();

  /// The kernel has not taken all: its buffer is full.
  bool behind() const { return write_armed_; }

 private:
  enum class State { kReading, kServing, kLinger, kClosed };

  void read_more();
  void on_readable();
  void read_ahead();
  void process(std::string_view bytes);
  void on_head();
  void serve();
  void refuse(int status, std::string_view reason);
  void answer(Response response, bool keep_alive);
  void answer_complete();
  void sent_all();
  void linger();
  void discard_input();
  bool send_now();
  void seal_chunk();
  std::size_t unsent() const { return out_.size() - out_sent_ + stream_.size(); }
  bool wants_keep_alive() const;

  Loop& loop_;
  Shard* shard_;  // null once closed
  const std::uint64_t id_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> socket_;  // null once closed
  State state_ = State::kReading;

  std::unique_ptr<RequestReader> reader_;  // null between requests
  std::string body_;
  std::string pending_;  // read, but of a later request
  std::weak_ptr<ServerExchange> exchange_;

  std::string out_;  // bytes of the wire
  std::size_t out_sent_ = 0;
  std::string stream_;         // bytes of a streamed answer that are in no chunk yet
  std::uint32_t leaving_ = 0;  // exchanges that were answered, and whose bytes have not all left
  bool streaming_ = false;
  bool chunked_ = false;
  bool head_only_ = false;
  bool http_1_1_ = true;
  bool close_after_ = false;
  bool refusing_ = false;
  bool half_closed_ = false;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool flush_armed_ = false;
  bool discarding_ = false;
  std::size_t discard_left_ = 0;
};

}  // namespace kvern::net
