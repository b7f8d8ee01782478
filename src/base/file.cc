#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kvern {

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const auto cannot = [&path](int error) {
    return fail(ErrorCode::kNotFound,
                fmt::format("cannot read {}: {}", path, std::error_code(error, std::generic_category()).message()));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot(errno);
  std::string content;
  char buffer[16'384];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || content.size() > bytes_max) {
      const int error = errno;
      close(fd);
      if (got < 0) return cannot(error);
      break;
    }
    content.append(buffer, static_cast<std::size_t>(got));
  }
  if (content.size() > bytes_max) {
    return fail(ErrorCode::kTooLarge, fmt::format("{} is larger than {} bytes", path, bytes_max));
  }
  return content;
}

}  // namespace kvern
