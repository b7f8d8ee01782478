#include "api/responses/response_ids.h"

#include <charconv>

namespace kvern::api {
namespace {

constexpr std::string_view kPrefix = "resp_";
constexpr std::size_t kDigits = 16;

/// Exactly 16 lower-case digits, as they are written.
std::optional<RequestId> parse_hex(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != kDigits || fault != std::errc{} || hex64(value) != digits) return std::nullopt;
  return RequestId{value};
}

}  // namespace

std::string response_name(RequestId id) { return std::string(kPrefix) + hex64(id.value); }

std::optional<RequestId> parse_response_name(std::string_view name) {
  return name.starts_with(kPrefix) ? parse_hex(name.substr(kPrefix.size())) : std::nullopt;
}

std::optional<RequestId> response_of_item(std::string_view item_id) {
  const std::size_t begin = item_id.find('_');
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = item_id.substr(begin + 1);
  if (rest.size() <= kDigits || rest[kDigits] != '_') return std::nullopt;
  return parse_hex(rest.substr(0, kDigits));
}

}  // namespace kvern::api
