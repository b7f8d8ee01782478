#include "net/client_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <iterator>
#include <utility>

#include "net/socket.h"

namespace kvern::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::seconds kSilentMax{30};

asio::io_context& io_of(Loop& loop) { return *static_cast<asio::io_context*>(loop.native()); }

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte == 0x7F ? ' ' : c);
  }
}

std::string request_head(const ClientRequest& request) {
  std::string out;
  append_clean(out, request.method);
  out.push_back(' ');
  append_clean(out, request.target);
  out.append(" HTTP/1.1\r\nhost: ");
  const bool bare_v6 = request.host.find(':') != std::string::npos && !request.host.starts_with('[');
  if (bare_v6) out.push_back('[');
  append_clean(out, request.host);
  if (bare_v6) out.push_back(']');
  fmt::format_to(std::back_inserter(out), ":{}\r\n", request.port);
  for (const auto& [name, value] : request.headers) {
    if (equal_ignoring_case(name, "host") || equal_ignoring_case(name, "content-length") ||
        equal_ignoring_case(name, "connection") || equal_ignoring_case(name, "transfer-encoding")) {
      continue;
    }
    append_clean(out, name);
    out.append(": ");
    append_clean(out, value);
    out.append("\r\n");
  }
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    fmt::format_to(std::back_inserter(out), "content-length: {}\r\n", request.body.size());
  }
  out.append("\r\n");
  return out;
}

}  // namespace

ClientConnection::ClientConnection(Loop& loop, ClientConnectionOwner& owner, std::uint64_t id)
    : loop_(loop),
      owner_(&owner),
      id_(id),
      socket_(std::make_shared<tcp::socket>(io_of(loop))),
      timer_(std::make_unique<asio::steady_timer>(io_of(loop))) {}

ClientConnection::~ClientConnection() = default;

void ClientConnection::connect(std::uint64_t handle, const ClientRequest& request, ClientCallbacks& callbacks) {
  callbacks_ = &callbacks;
  handle_ = handle;
  request_ = &request;
  set_deadline(request.connect_deadline, "the worker does not accept connections in time");
  std::string host = request.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code no_address;
  const auto address = asio::ip::make_address(host, no_address);
  if (!no_address) {
    return connect_to(tcp::resolver::results_type::create(tcp::endpoint(address, request.port), host, ""));
  }
  resolver_ = std::make_unique<tcp::resolver>(io_of(loop_));
  resolver_->async_resolve(
      host, fmt::format("{}", request.port),
      [self = shared_from_this()](const boost::system::error_code& error, const tcp::resolver::results_type& found) {
        if (!self->owner_) return;
        if (error) return self->fail(ErrorCode::kUnavailable, "the worker's host name is not known");
        self->connect_to(found);
      });
}

void ClientConnection::connect_to(const tcp::resolver::results_type& endpoints) {
  // The connect looks at the socket before it calls back, also when it was cancelled: it has to be there still.
  asio::async_connect(
      *socket_, endpoints,
      [self = shared_from_this(), socket = socket_](const boost::system::error_code& error, const tcp::endpoint&) {
        if (!self->owner_) return;
        if (error) return self->fail(ErrorCode::kUnavailable, "cannot connect to the worker");
        boost::system::error_code refused;
        if (self->socket_->native_non_blocking(true, refused)) {
          return self->fail(ErrorCode::kUnavailable, "cannot connect to the worker");
        }
        const int fd = self->socket_->native_handle();
        tune_connection(fd, kSilentMax);
        // From here to its end: an answer may come before all is sent, and a worker may close while it rests.
        if (!self->owner_->reads().add(fd, self->id_, *self)) {
          return self->fail(ErrorCode::kUnavailable, "cannot connect to the worker");
        }
        self->begin();
      });
}

void ClientConnection::carry(std::uint64_t handle, const ClientRequest& request, ClientCallbacks& callbacks) {
  callbacks_ = &callbacks;
  handle_ = handle;
  request_ = &request;
  begin();
}

void ClientConnection::begin() {
  ReaderLimits limits;
  limits.header_bytes_max = request_->header_bytes_max;
  limits.body_bytes_max = request_->body_bytes_max;
  reader_.emplace(limits, request_->method == "HEAD");
  head_ = request_head(*request_);
  sent_ = 0;
  sent_all_ = false;
  answered_ = false;
  set_deadline(request_->first_byte_deadline, "the worker does not answer in time");
  send_some();
}

void ClientConnection::send_some() {
  const std::string_view head = std::string_view(head_).substr(std::min(sent_, head_.size()));
  const std::string_view body =
      std::string_view(request_->body).substr(sent_ > head_.size() ? sent_ - head_.size() : 0);
  std::size_t sent = 0;
  const IoStatus status = send_parts(socket_->native_handle(), head, body, {}, sent);
  if (status == IoStatus::kClosed) {
    // What the worker said before it closed is read first; the end of stream then ends the exchange.
    return;
  }
  sent_ += sent;
  if (sent > 0 && !answered_) set_deadline(request_->first_byte_deadline, "the worker does not answer in time");
  if (sent == head.size() + body.size()) {
    sent_all_ = true;
    head_ = std::string();
    return;
  }
  socket_->async_wait(tcp::socket::wait_write,
                      [self = shared_from_this(), handle = handle_](const boost::system::error_code& error) {
                        if (!error && self->owner_ && self->request_ && self->handle_ == handle) self->send_some();
                      });
}

void ClientConnection::on_readable() {
  const auto self = shared_from_this();  // it may come to its end here
  if (resting_ || !request_) {
    // The end of the stream, or bytes nobody asked for: of no use either way.
    const std::uint64_t id = id_;
    auto* owner = owner_;
    close();
    return owner->on_rest_ended(id);
  }
  // The kernel keeps to it while pieces come quickly; slow ones it acknowledges one by one anyway.
  if (request_->peer_sends_at_once && reads_++ % 32 == 0) delay_acknowledgement(socket_->native_handle());
  std::string& buffer = owner_->scratch();
  std::size_t received = 0;
  switch (receive(socket_->native_handle(), buffer.data(), buffer.size(), received)) {
    case IoStatus::kOk:
      if (!answered_ && sent_all_) owner_->on_answering(handle_);
      answered_ = true;
      set_deadline(request_->between_deadline, "the worker stopped in the middle of its answer");
      return deliver({buffer.data(), received});
    case IoStatus::kWouldBlock: return;
    case IoStatus::kClosed:
      if (answered_ && reader_->end_of_stream()) return complete(true);
      return fail(ErrorCode::kEngine, "the worker broke the connection");
  }
}

/// Hands on what the bytes hold. The exchange may be over then, or was cancelled by a callback.
void ClientConnection::deliver(std::string_view bytes) {
  for (;;) {
    switch (reader_->feed(bytes)) {
      case ReaderStep::kMore: return;
      case ReaderStep::kHead: {
        const ClientHead head = std::move(reader_->head());  // nobody keeps it while a long answer comes
        callbacks_->on_head(head);
        break;
      }
      case ReaderStep::kBody: callbacks_->on_body(reader_->piece()); break;
      case ReaderStep::kDone: return complete(!bytes.empty());
      case ReaderStep::kFailed: {
        switch (reader_->failure().status) {
          case 413: return fail(ErrorCode::kEngine, "the worker's answer is larger than allowed");
          case 431: return fail(ErrorCode::kEngine, "the head of the worker's answer is larger than allowed");
          default: return fail(ErrorCode::kEngine, "the worker's answer is no valid HTTP");
        }
      }
    }
    if (!owner_) return;  // cancelled from within
  }
}

void ClientConnection::complete(bool surplus) {
  const bool reusable = !surplus && sent_all_ && reader_->keep_alive();
  const std::uint64_t handle = std::exchange(handle_, 0);
  request_ = nullptr;
  reader_.reset();
  head_ = std::string();
  deadline_ = TimePoint::max();
  auto* owner = owner_;
  if (!reusable) close();
  owner->on_complete(handle, reusable);
}

void ClientConnection::fail(ErrorCode code, const char* message) {
  const std::uint64_t handle = handle_;
  const bool untouched = !answered_;
  auto* owner = owner_;
  close();
  owner->on_failure(handle, kvern::fail(code, message), untouched);
}

void ClientConnection::rest() { resting_ = true; }

bool ClientConnection::wake() {
  resting_ = false;
  char byte = 0;
  const ssize_t seen = ::recv(socket_->native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void ClientConnection::close() {
  if (!owner_) return;
  if (socket_->is_open()) owner_->reads().remove(socket_->native_handle(), id_);
  owner_ = nullptr;
  request_ = nullptr;
  boost::system::error_code ignored;
  [[maybe_unused]] const auto closed = socket_->close(ignored);
  socket_.reset();
  resolver_.reset();
  timer_.reset();
}

// Deadlines move with every read, timers do not: the timer looks when it rings how far the deadline has moved.
void ClientConnection::set_deadline(Duration within, const char* message) {
  deadline_ = loop_.clock().now() + within;
  deadline_message_ = message;
  if (deadline_ < timer_at_) wait_timer();
}

void ClientConnection::wait_timer() {
  timer_at_ = deadline_;
  timer_->expires_after(deadline_ - loop_.clock().now());
  timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->owner_) return;
    self->timer_at_ = TimePoint::max();
    if (self->deadline_ == TimePoint::max()) return;
    if (self->loop_.clock().now() < self->deadline_) return self->wait_timer();
    self->fail(ErrorCode::kTimeout, self->deadline_message_);
  });
}

}  // namespace kvern::net
