#include "api/cache_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kvern::api {

std::optional<std::uint32_t> ttl_seconds(std::string_view ttl) {
  constexpr std::uint32_t kDay = 86'400;
  if (ttl == "5m") return 300;
  if (ttl == "30m") return 1'800;
  if (ttl == "1h") return 3'600;
  if (ttl.size() < 2 || ttl.back() != 's' || ttl.front() == '0') return std::nullopt;
  std::uint32_t seconds = 0;
  ttl.remove_suffix(1);
  const auto [end, fault] = std::from_chars(ttl.data(), ttl.data() + ttl.size(), seconds);
  if (fault != std::errc{} || end != ttl.data() + ttl.size() || seconds > kDay) return std::nullopt;
  return seconds;
}

void add_blocks(std::vector<MarkedPart> parts, std::vector<ir::Block>& out) {
  for (MarkedPart& marked : parts) {
    std::visit([&](auto& content) { out.push_back({std::move(content), marked.cache}); }, marked.part);
  }
}

std::optional<ir::CacheMark> CacheMarks::read(const Fields& fields) {
  const auto control = fields.object("cache_control");
  if (!control) return std::nullopt;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("cache_control");
  const Fields inner(*control, path, decoding);
  std::string type;
  if (!inner.required("type") || !inner.string("type", type)) return std::nullopt;
  if (type != "ephemeral") {
    decoding.fail(inner.path("type"), fmt::format("must be ephemeral, not {}", shown(type)));
    return std::nullopt;
  }
  ir::CacheMark mark;
  std::string ttl;
  if (inner.string("ttl", ttl)) {
    const auto seconds = ttl_seconds(ttl);
    if (!seconds) {
      decoding.fail(inner.path("ttl"),
                    fmt::format("must be 5m, 30m, 1h or seconds from 1s to 86400s, not {}", shown(ttl)));
      return std::nullopt;
    }
    mark.ttl_seconds = *seconds;
  }
  ++count_;
  if (excess_ == Excess::kClip) return clipped(path, mark);
  if (count_ > kMost) {
    decoding.fail(path, fmt::format("is one too many: a request has at most {} of them", kMost));
  } else if (mark.ttl_seconds > shortest_) {
    decoding.fail(inner.path("ttl"), "is longer than that of a mark before it: longer ones come first");
  }
  shortest_ = std::min(shortest_, mark.ttl_seconds);
  return mark;
}

/// Only Anthropic's clients know the rules, so for others what breaks them is put right.
std::optional<ir::CacheMark> CacheMarks::clipped(const Path& path, ir::CacheMark mark) {
  if (count_ > kMost) {
    clipped_.push_back(path.str() + " dropped: a request has at most 4");
    return std::nullopt;
  }
  if (mark.ttl_seconds > shortest_) {
    clipped_.push_back(fmt::format("{} clipped to {} s: longer ones come first", path.str(), shortest_));
    mark.ttl_seconds = shortest_;
  }
  shortest_ = std::min(shortest_, mark.ttl_seconds);
  return mark;
}

}  // namespace kvern::api
