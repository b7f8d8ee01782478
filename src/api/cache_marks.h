// `cache_control` of a body: what a mark may say, how many there may be, and in which order their times may stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// "5m", "30m", "1h" or "<N>s" with N of 1..86400, in seconds; nullopt for anything else.
std::optional<std::uint32_t> ttl_seconds(std::string_view ttl);

/// A content part, and the mark on it.
struct MarkedPart {
  ir::Part part;
  std::optional<ir::CacheMark> cache;
};
/// Each becomes a block.
void add_blocks(std::vector<MarkedPart> parts, std::vector<ir::Block>& out);

/// The marks of one body, read in the order of the prompt: tools, system, messages.
class CacheMarks {
 public:
  /// At most this many; a longer time may not follow a shorter one, since what lies behind a mark needs what is before.
  static constexpr int kMost = 4;

  /// What happens to a mark that is one too many, or longer than one before it.
  enum class Excess : std::uint8_t { kRefuse, kClip };
  explicit CacheMarks(Excess excess = Excess::kRefuse) : excess_(excess) {}

  /// The mark of an object that may have one (`cache_control`). Faults name the field.
  std::optional<ir::CacheMark> read(const Fields& fields);
  /// What was clipped, for the log: "messages[3].content[0].cache_control dropped".
  std::vector<std::string> take_clipped() { return std::move(clipped_); }

 private:
  std::optional<ir::CacheMark> clipped(const Path& path, ir::CacheMark mark);
  Excess excess_;
  std::vector<std::string> clipped_;
  int count_ = 0;
  std::uint32_t shortest_ = UINT32_MAX;
};

}  // namespace kvern::api
