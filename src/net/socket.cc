#include "net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace kvern::net {
namespace {

void set_option(int fd, int level, int name, int value) {
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

IoStatus status_of(ssize_t count, std::size_t& bytes) {
  if (count > 0) {
    bytes = static_cast<std::size_t>(count);
    return IoStatus::kOk;
  }
  bytes = 0;
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? IoStatus::kWouldBlock : IoStatus::kClosed;
}

/// Parts up to this sum are copied together: a plain send of an event costs half a microsecond less than a gathered
/// one.
constexpr std::size_t kCopyBytes = 2048;

iovec part_of(std::string_view bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};  // the kernel only reads
}

}  // namespace

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void tune_connection(int fd, std::chrono::milliseconds silent_max) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silent_max.count()));
  // What the kernel holds unsent for a slow reader, above what is on the wire: without it, up to 4 MB a connection.
  set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 256 << 10);
}

IoStatus send_parts(int fd, std::string_view first, std::string_view second, std::string_view third,
                    std::size_t& sent) {
  ssize_t count = 0;
  if (first.size() + second.size() + third.size() <= kCopyBytes) {
    std::array<char, kCopyBytes> whole;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    char* end = std::ranges::copy(first, whole.data()).out;
    end = std::ranges::copy(second, end).out;
    end = std::ranges::copy(third, end).out;
    do {
      count = ::send(fd, whole.data(), static_cast<std::size_t>(end - whole.data()), MSG_NOSIGNAL);
    } while (count < 0 && errno == EINTR);
    return status_of(count, sent);
  }
  std::array<iovec, 3> parts{part_of(first), part_of(second), part_of(third)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  do {
    count = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return status_of(count, sent);
}

void delay_acknowledgement(int fd) { set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0); }

IoStatus receive(int fd, char* buffer, std::size_t size, std::size_t& received) {
  ssize_t count = 0;
  do {
    count = ::recv(fd, buffer, size, 0);
  } while (count < 0 && errno == EINTR);
  return status_of(count, received);
}

IoStatus discard(int fd, std::size_t size, std::size_t& discarded) {
  ssize_t count = 0;
  do {
    count = ::recv(fd, nullptr, size, MSG_TRUNC);  // TCP on Linux: drops the bytes, copies none
  } while (count < 0 && errno == EINTR);
  return status_of(count, discarded);
}

void shutdown_send(int fd) { static_cast<void>(::shutdown(fd, SHUT_WR)); }

std::size_t bytes_waiting(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void reset_on_close(int fd) {
  const linger now{1, 0};
  static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
}

}  // namespace kvern::net
