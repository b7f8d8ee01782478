#include "prompt/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvern::prompt {
namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

}  // namespace

Result<ByteSource> ByteSource::open(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return fail(ErrorCode::kNotFound, errno == ENOENT ? "there is no such file" : "the file cannot be opened");
  }
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    return fail(ErrorCode::kInvalidRequest, "it is not a regular file");
  }
  return ByteSource(file, static_cast<std::uint64_t>(status.st_size));
}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : memory_(other.memory_),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_),
      position_(other.position_),
      buffer_(std::move(other.buffer_)),
      buffer_at_(other.buffer_at_) {}

ByteSource::~ByteSource() {
  if (file_ >= 0) ::close(file_);
}

bool ByteSource::fill() {
  buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, left())));
  buffer_at_ = position_;
  std::size_t have = 0;
  while (have < buffer_.size()) {
    const ssize_t got =
        ::pread(file_, buffer_.data() + have, buffer_.size() - have, static_cast<off_t>(position_ + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  buffer_.resize(have);
  return have > 0;
}

bool ByteSource::read(void* to, std::size_t bytes) {
  if (bytes > left()) return false;
  if (file_ < 0) {
    if (bytes > 0) std::memcpy(to, memory_.data() + position_, bytes);
    position_ += bytes;
    return true;
  }
  const std::uint64_t start = position_;
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (position_ < buffer_at_ || position_ >= buffer_at_ + buffer_.size()) {
      if (!fill()) {
        position_ = start;
        return false;
      }
    }
    const auto offset = static_cast<std::size_t>(position_ - buffer_at_);
    const std::size_t part = std::min(bytes, buffer_.size() - offset);
    std::memcpy(out, buffer_.data() + offset, part);
    out += part;
    position_ += part;
    bytes -= part;
  }
  return true;
}

bool ByteSource::skip(std::uint64_t bytes) {
  if (bytes > left()) return false;
  position_ += bytes;
  return true;
}

}  // namespace kvern::prompt
