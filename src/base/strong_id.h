// Ids that cannot be mixed up: a 64-bit number with a tag type. Formats as 16 hex digits.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace kvern {

/// `value` as exactly 16 lower-case hex digits.
std::string hex64(std::uint64_t value);

template <typename Tag>
struct StrongId {
  std::uint64_t value = 0;
  auto operator<=>(const StrongId&) const = default;
};

/// One request, as kvern names it: minted at random, sent as `x-request-id`, never taken from a client.
using RequestId = StrongId<struct RequestTag>;
inline std::string to_string(RequestId id) { return "req_" + hex64(id.value); }

}  // namespace kvern

template <typename Tag>
struct std::hash<kvern::StrongId<Tag>> {
  std::size_t operator()(const kvern::StrongId<Tag>& id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};
