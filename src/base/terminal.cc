#include "base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace kvern {

bool write_stderr(std::string_view text, std::chrono::milliseconds patience) {
  // A pipe that polls writable takes PIPE_BUF (4096) bytes without blocking.
  constexpr std::size_t kPiece = 4096;
  while (!text.empty()) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    const int polled = poll(&ready, 1, static_cast<int>(patience.count()));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0 || (ready.revents & POLLOUT) == 0) return false;
    const ssize_t written = write(STDERR_FILENO, text.data(), std::min(text.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void keep_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() takes the lowest free number: this one, since those below are open by now.
    if (fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = open("/dev/null", O_RDWR);
  }
}

}  // namespace kvern
