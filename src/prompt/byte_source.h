// Sequential reading with a known end, from a file or from memory: what a header parser needs to hold every length
// against what is left. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace kvern::prompt {

class ByteSource {
 public:
  /// Opens a regular file. It may shrink while it is read: a read past its new end then fails like any other.
  static Result<ByteSource> open(const std::filesystem::path& path);
  /// `bytes` outlives the source.
  explicit ByteSource(std::span<const std::byte> bytes) : memory_(bytes), size_(bytes.size()) {}
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;
  ~ByteSource();

  std::uint64_t size() const { return size_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return size_ - position_; }
  /// Copies the next bytes and moves on; false, unmoved, when fewer are left or the file cannot be read.
  bool read(void* to, std::size_t bytes);
  /// Moves on without reading; false, unmoved, when fewer are left.
  bool skip(std::uint64_t bytes);

 private:
  ByteSource(int file, std::uint64_t size) : file_(file), size_(size) {}
  bool fill();

  std::span<const std::byte> memory_;
  int file_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;  // of a file
  std::uint64_t buffer_at_ = 0;    // its place in the file
};

}  // namespace kvern::prompt
