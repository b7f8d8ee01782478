#include "net/connection.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "net/response_head.h"
#include "net/server_exchange.h"
#include "net/shard.h"
#include "net/socket.h"

namespace kvern::net {
namespace {

using boost::asio::posix::stream_descriptor;

/// A head is small; what a client pipelines behind it stays in the kernel beyond this, while answers wait to be taken.
constexpr std::size_t kHeadReadBytes = 16U << 10U;
/// Bytes gathered in one turn beyond which they leave at once.
constexpr std::size_t kFlushBytes = 256U << 10U;
/// What a client may pipeline behind a request that is being served.
constexpr std::size_t kPipelineBytes = 64U << 10U;
/// What is discarded of a client that was refused, or pipelined too much, before the connection is reset. Discarding
/// copies nothing, and a client that sends a whole body before it reads gets its answer.
constexpr std::size_t kDiscardBytes = 64U << 20U;
/// Announced lengths are believed for this much of a reservation before bytes have come.
constexpr std::size_t kReserveBytes = 64U << 10U;

void append_chunk_head(std::string& out, std::size_t size) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16).ptr;
  out.append(digits.data(), end).append("\r\n");
}

}  // namespace

Connection::Connection(Shard& shard, std::uint64_t id, int fd)
    : loop_(shard.loop()), shard_(&shard), id_(id), socket_(std::make_unique<stream_descriptor>(shard.io(), fd)) {}

Connection::~Connection() = default;

void Connection::start() {
  shard_->arm(*this, DeadlineKind::kIdle);
  read_more();
}

void Connection::start_refusing() {
  refusing_ = true;
  answer(shard_->handler().refuse(503, "too many connections", {}), false);
}

// Reading ------------------------------------------------------------------------------------------------------------

void Connection::read_more() {
  const bool wanted = state_ == State::kLinger || state_ == State::kServing ||
                      (state_ == State::kReading && !close_after_ && unsent() == 0);
  if (!wanted || read_armed_) return;
  read_armed_ = true;
  socket_->async_wait(stream_descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        self->read_armed_ = false;
                        if (!error && self->state_ != State::kClosed) self->on_readable();
                      });
}

void Connection::on_readable() {
  if (state_ == State::kLinger) return discard_input();
  if (state_ == State::kServing) return read_ahead();
  if (close_after_ || unsent() > 0) return;  // sent_all() goes on
  std::string& buffer = shard_->scratch();
  const bool in_body = reader_ && reader_->started() && kind == DeadlineKind::kBody;
  std::size_t received = 0;
  switch (receive(socket_->native_handle(), buffer.data(), in_body ? buffer.size() : kHeadReadBytes, received)) {
    case IoStatus::kOk: process({buffer.data(), received}); break;
    case IoStatus::kWouldBlock: break;
    case IoStatus::kClosed: return cut(Tell::kNow);
  }
  read_more();
}

/// While a request is served: keeps what is pipelined behind it, up to a bound. Beyond that the connection ends with
/// the present answer and the rest is discarded (a client sends pipelined requests without an answer again). Not to
/// read at all would be simpler, but the end of a stream behind a full window never arrives: the client could hang up
/// unseen.
void Connection::read_ahead() {
  if (discarding_) return discard_input();
  std::string& buffer = shard_->scratch();
  std::size_t received = 0;
  switch (receive(socket_->native_handle(), buffer.data(), kHeadReadBytes, received)) {
    case IoStatus::kOk: pending_.append(buffer, 0, received); break;
    case IoStatus::kWouldBlock: break;
    case IoStatus::kClosed: return cut(Tell::kNow);
  }
  if (pending_.size() > kPipelineBytes) {
    pending_ = std::string();
    discarding_ = true;
    discard_left_ = kDiscardBytes;
    close_after_ = true;
  }
  read_more();
}

void Connection::process(std::string_view bytes) {
  if (!reader_) {
    reader_ = std::make_unique<RequestReader>(shard_->limits());
    head_only_ = false;  // of the request before
    http_1_1_ = true;
  }
  for (;;) {
    switch (reader_->feed(bytes)) {
      case ReaderStep::kMore:
        if (!reader_->started()) {
          reader_.reset();  // empty lines only: still at rest
        } else if (kind == DeadlineKind::kIdle || !armed()) {
          shard_->arm(*this, DeadlineKind::kHeader);
        }
        return;
      case ReaderStep::kHead:
        on_head();
        if (!reader_) {  // refused
          pending_.assign(bytes);
          return;
        }
        if (state_ == State::kClosed) return;
        break;
      case ReaderStep::kBody: body_.append(reader_->piece()); break;
      case ReaderStep::kDone:
        pending_.assign(bytes);
        serve();
        return;
      case ReaderStep::kFailed: {
        const ReaderFailure failure = reader_->failure();
        return refuse(failure.status, failure.reason);
      }
    }
  }
}

void Connection::on_head() {
  http_1_1_ = reader_->http_1_1();
  const RequestHead& head = reader_->head();
  head_only_ = head.method == "HEAD";
  if (auto refusal = shard_->handler().admit(head)) {
    // An unread body would have to be read to find the next request: the connection ends instead.
    const bool keep = !head.has_body && wants_keep_alive() && !refusal->close;
    answer(std::move(*refusal), keep);
    return;
  }
  if (!head.has_body) return;
  shard_->arm(*this, DeadlineKind::kBody);
  if (const auto length = reader_->content_length()) {
    // Untouched pages of a reservation cost nothing, and growing by doubling would copy 32 MB bodies.
    body_.reserve(static_cast<std::size_t>(*length));
  } else {
    body_.reserve(kReserveBytes);
  }
  if (reader_->expects_continue()) {
    out_.append("HTTP/1.1 100 Continue\r\n\r\n");
    if (send_now() && unsent() > 0) shard_->arm(*this, DeadlineKind::kWrite);
  }
}

void Connection::serve() {
  disarm();
  state_ = State::kServing;
  shard_->counters().exchanges.fetch_add(1, std::memory_order_relaxed);
  Request request{std::move(reader_->head()), std::move(body_)};
  body_ = std::string();
  close_after_ = !wants_keep_alive();
  reader_.reset();
  auto exchange = std::make_shared<ServerExchange>(shared_from_this());
  exchange_ = exchange;
  shard_->handler().serve(std::move(request), exchange);
  // A client that shut its sending side with the request still gets an answer that is ready at once; it is not waited
  // on for longer.
  if (half_closed_ && state_ == State::kServing) return cut(Tell::kNow);
  read_more();
}

bool Connection::wants_keep_alive() const { return reader_->keep_alive() && !shard_->draining(); }

void Connection::refuse(int status, std::string_view reason) {
  answer(shard_->handler().refuse(status, reason, reader_ ? reader_->head() : RequestHead()), false);
}

// Answering ----------------------------------------------------------------------------------------------------------

void Connection::respond(Response response) {
  const bool keep = !close_after_ && !response.close && !shard_->draining();
  ++leaving_;
  answer(std::move(response), keep);
}

void Connection::answer(Response response, bool keep_alive) {
  reader_.reset();
  body_ = std::string();
  close_after_ = !keep_alive;
  append_head(out_, {response.status, http_1_1_, keep_alive, response.body.size()}, response.headers, shard_->date());
  chunked_ = false;
  if (!head_only_ && status_has_body(response.status)) stream_ = std::move(response.body);
  answer_complete();
}

void Connection::start_stream(int status, const Headers& headers) {
  KV_DCHECK(!streaming_);
  streaming_ = true;
  const bool keep = !close_after_ && !shard_->draining() && http_1_1_;
  close_after_ = !keep;
  chunked_ = http_1_1_ && status_has_body(status);
  head_only_ = head_only_ || !status_has_body(status);
  append_head(out_, {status, http_1_1_, keep, std::nullopt}, headers, shard_->date());
  shard_->flush_later(shared_from_this());
}

void Connection::write(std::string_view bytes) {
  KV_DCHECK(streaming_);
  if (head_only_ || bytes.empty()) return;
  if (write_armed_ && unsent() > shard_->options().write_buffer_max) {
    reset_on_close(socket_->native_handle());
    return cut(Tell::kLater);
  }
  stream_.append(bytes);
  if (write_armed_) return;
  if (stream_.size() >= kFlushBytes) {
    if (!send_now()) return;
  } else {
    shard_->flush_later(shared_from_this());
    shard_->gathered(bytes.size());
  }
}

void Connection::finish() {
  KV_DCHECK(streaming_);
  ++leaving_;
  if (chunked_ && !head_only_) {
    seal_chunk();
    out_.append("0\r\n\r\n");
  }
  answer_complete();
}

void Connection::answer_complete() {
  state_ = State::kReading;
  streaming_ = false;
  exchange_.reset();
  if (write_armed_) return;
  shard_->flush_later(shared_from_this());
  shard_->gathered(unsent());
}

// Sending ------------------------------------------------------------------------------------------------------------

void Connection::flush() {
  flush_armed_ = false;
  if (state_ == State::kClosed || write_armed_) return;
  if (send_now() && unsent() == 0) sent_all();
}

void Connection::send_early() {
  if (state_ != State::kClosed && !write_armed_) static_cast<void>(send_now());
}

void Connection::seal_chunk() {
  if (stream_.empty()) return;
  append_chunk_head(out_, stream_.size());
  out_.append(stream_).append("\r\n");
  clear_buffer(stream_);
}

/// Sends what waits, in one call; false when the connection broke. What the kernel does not take waits in out_ for
/// writability.
bool Connection::send_now() {
  if (unsent() == 0) return true;
  const bool chunk = chunked_ && !stream_.empty();
  if (chunk) append_chunk_head(out_, stream_.size());
  const std::string_view first = std::string_view(out_).substr(out_sent_);
  const std::string_view end = chunk ? "\r\n" : "";
  std::size_t sent = 0;
  shard_->count_write();
  if (send_parts(socket_->native_handle(), first, stream_, end, sent) == IoStatus::kClosed) {
    cut(Tell::kLater);
    return false;
  }
  if (sent == first.size() + stream_.size() + end.size()) {
    clear_buffer(out_);
    out_sent_ = 0;
    clear_buffer(stream_);
    return true;
  }
  out_.append(stream_).append(end);
  out_sent_ += sent;
  clear_buffer(stream_);
  if (out_sent_ > out_.size() / 2) {
    out_.erase(0, out_sent_);
    out_sent_ = 0;
  }
  // The time without progress starts when the reader first falls behind, and again with every byte it takes.
  if (sent > 0 || kind != DeadlineKind::kWrite || !armed()) shard_->arm(*this, DeadlineKind::kWrite);
  if (!write_armed_) {
    write_armed_ = true;
    socket_->async_wait(stream_descriptor::wait_write,
                        [self = shared_from_this()](const boost::system::error_code& error) {
                          self->write_armed_ = false;
                          if (!error) self->flush();
                        });
  }
  return true;
}

void Connection::sent_all() {
  shard_->counters().exchanges.fetch_sub(std::exchange(leaving_, 0), std::memory_order_relaxed);
  if (kind == DeadlineKind::kWrite) disarm();
  if (state_ == State::kServing) return;
  if (close_after_) return linger();
  if (!pending_.empty() && !reader_) {
    const std::string bytes = std::exchange(pending_, std::string());
    process(bytes);
  }
  if (state_ != State::kReading || unsent() > 0) return;
  if (!reader_) {
    if (shard_->draining()) {
      close_after_ = true;
      return linger();
    }
    if (!armed()) shard_->arm(*this, DeadlineKind::kIdle);
  } else if (!armed()) {
    shard_->arm(*this, DeadlineKind::kBody);
  }
  read_more();
}

// Ending -------------------------------------------------------------------------------------------------------------

void Connection::linger() {
  state_ = State::kLinger;
  pending_ = std::string();
  discard_left_ = kDiscardBytes;
  shutdown_send(socket_->native_handle());
  shard_->arm(*this, DeadlineKind::kLinger);
  read_more();
}

void Connection::discard_input() {
  std::size_t discarded = 0;
  switch (discard(socket_->native_handle(), discard_left_, discarded)) {
    case IoStatus::kOk: discard_left_ -= discarded; break;
    case IoStatus::kWouldBlock: break;
    case IoStatus::kClosed: return cut(Tell::kNow);
  }
  if (discard_left_ == 0) return cut(Tell::kNow);
  read_more();
}

void Connection::on_deadline(DeadlineKind passed) {
  switch (passed) {
    case DeadlineKind::kHeader: return refuse(408, "the request's head did not arrive in time");
    case DeadlineKind::kBody: return refuse(408, "the request's body did not arrive in time");
    case DeadlineKind::kWrite: reset_on_close(socket_->native_handle()); break;
    case DeadlineKind::kIdle:
    case DeadlineKind::kLinger: break;
  }
  cut(Tell::kNow);
}

void Connection::on_hangup(Hangup how) {
  if (how == Hangup::kFull || state_ == State::kServing) return cut(Tell::kNow);
  half_closed_ = true;  // what was read is served; the end of stream follows it
}

void Connection::on_drain() {
  const bool resting = state_ == State::kReading && !reader_ && pending_.empty() && unsent() == 0;
  if (resting && bytes_waiting(socket_->native_handle()) == 0) cut(Tell::kNot);
}

void Connection::cut(Tell tell) {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  if (state_ == State::kServing) ++leaving_;
  shard_->counters().exchanges.fetch_sub(std::exchange(leaving_, 0), std::memory_order_relaxed);
  if (refusing_) shard_->counters().refusing.fetch_sub(1, std::memory_order_relaxed);
  state_ = State::kClosed;
  disarm();
  shard_->hangups().remove(socket_->native_handle());
  socket_.reset();
  reader_.reset();
  body_ = pending_ = out_ = stream_ = std::string();
  out_sent_ = 0;
  shard_->remove(id_);
  shard_ = nullptr;
  const auto exchange = exchange_.lock();
  if (!exchange) return;
  auto callback = exchange->take_gone();
  if (!callback || tell == Tell::kNot) return;
  if (tell == Tell::kNow) {
    callback();
  } else {
    loop_.post(std::move(callback));
  }
}

}  // namespace kvern::net
