// Descriptors and the few socket calls net makes itself. Every socket is non-blocking and close-on-exec, and no send
// raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

namespace kvern::net {

/// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// What every TCP connection of kvern gets: no delay, keep-alive probes, and an end to a peer that acknowledges nothing
/// for `silent_max`. Failures are ignored: each is an improvement, none a need.
void tune_connection(int fd, std::chrono::milliseconds silent_max);

enum class IoStatus { kOk, kWouldBlock, kClosed };

/// Sends parts one after the other in one system call; `sent` is how many bytes the kernel took (all of them, or the
/// caller waits for writability).
IoStatus send_parts(int fd, std::string_view first, std::string_view second, std::string_view third, std::size_t& sent);

/// Lets the kernel wait up to 40 ms for more before it acknowledges what is read (tcp(7), TCP_QUICKACK), until it had
/// to wait that long: then it is to be told again.
void delay_acknowledgement(int fd);

/// Reads once. kClosed on end of stream and on errors.
IoStatus receive(int fd, char* buffer, std::size_t size, std::size_t& received);

/// Reads and forgets up to `size` bytes without copying them.
IoStatus discard(int fd, std::size_t size, std::size_t& discarded);

/// Says that nothing more will be sent.
void shutdown_send(int fd);

/// Bytes that wait to be read.
std::size_t bytes_waiting(int fd);

/// Makes the close that follows a reset, so that no bytes linger in the kernel for a peer that does not take them.
void reset_on_close(int fd);

}  // namespace kvern::net
