#include "api/data_url.h"

#include <sodium.h>

#include <algorithm>

namespace kvern::api {

std::optional<DataUrl> parse_data_url(std::string_view url) {
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kEncoding = ";base64";
  const std::size_t comma = url.find(',');
  if (!url.starts_with(kScheme) || comma == std::string_view::npos) return std::nullopt;
  std::string_view head = url.substr(kScheme.size(), comma - kScheme.size());
  const std::string_view data = url.substr(comma + 1);
  if (!head.ends_with(kEncoding) || !decode_base64(data)) return std::nullopt;
  head.remove_suffix(kEncoding.size());
  DataUrl out{std::string(head.substr(0, head.find(';'))), std::string(data)};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::ranges::transform(out.media_type, out.media_type.begin(), lower);
  if (out.media_type.empty()) out.media_type = "text/plain";
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  std::size_t size = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(), text.size(), nullptr,
                        &size, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  out.resize(size);
  return out;
}

}  // namespace kvern::api
