#include "api/data_url.h"

#include <algorithm>

#include "base/base64.h"

namespace kvern::api {

std::optional<DataUrl> parse_data_url(std::string_view url) {
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kEncoding = ";base64";
  const std::size_t comma = url.find(',');
  if (!url.starts_with(kScheme) || comma == std::string_view::npos) return std::nullopt;
  std::string_view head = url.substr(kScheme.size(), comma - kScheme.size());
  const std::string_view data = url.substr(comma + 1);
  if (!head.ends_with(kEncoding) || !from_base64(data)) return std::nullopt;
  head.remove_suffix(kEncoding.size());
  DataUrl out{std::string(head.substr(0, head.find(';'))), std::string(data)};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::ranges::transform(out.media_type, out.media_type.begin(), lower);
  if (out.media_type.empty()) out.media_type = "text/plain";
  return out;
}

}  // namespace kvern::api
