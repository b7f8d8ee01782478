// Two byte-at-a-time scanners that find where a head or a chunk's size line ends, and refuse bytes on which HTTP
// parsers are known to disagree, before the parser proper sees the whole piece. Because the parser always gets complete
// pieces, a message means the same however its bytes were split, and each byte is looked at once.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvern::net {

enum class ScanVerdict { kMore, kEnd, kBad };

/// A block of lines up to its empty line: a request's or response's head, or the trailers after a last chunk. Bad are
/// control bytes, LF without CR, CR without LF, and folded lines.
class HeadScanner {
 public:
  /// With `trailers` an immediate empty line ends the block; otherwise empty lines before the first text are skipped.
  explicit HeadScanner(bool trailers = false) : state_(trailers ? State::kLineStart : State::kBlank) {}
  /// Looks at `bytes`, which follow those seen before; `used` says how many belong to the block.
  ScanVerdict scan(std::string_view bytes, std::size_t& used);
  /// Nothing but empty lines came so far.
  bool blank() const { return state_ == State::kBlank; }

 private:
  enum class State { kBlank, kBlankCr, kText, kCr, kLineStart, kEndCr };
  State state_;
};

/// A chunk's size line with the CRLF that ends the chunk before it: hex digits, then nothing or an extension.
class ChunkLineScanner {
 public:
  explicit ChunkLineScanner(bool first) : state_(first ? State::kSize0 : State::kOldCr) {}
  ScanVerdict scan(std::string_view bytes, std::size_t& used);
  /// After kEnd: the size is zero, so trailers follow.
  bool last() const { return !nonzero_; }

 private:
  enum class State { kOldCr, kOldLf, kSize0, kSize, kExtension, kCr };
  State state_;
  bool nonzero_ = false;
};

}  // namespace kvern::net
