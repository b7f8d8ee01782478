#include "base/base64.h"

#include <sodium.h>

#include <algorithm>

namespace kvern {
namespace {

/// libsodium 1.0.18 takes a letter with its highest bit set for the letter.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::optional<std::string> decode(std::string_view text, int variant) {
  if (!is_ascii(text)) return std::nullopt;
  std::string out(text.size() / 4 * 3 + 3, '\0');
  std::size_t size = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(), text.size(), nullptr,
                        &size, &end, variant) != 0 ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  out.resize(size);
  return out;
}

}  // namespace

std::string base64url(std::string_view bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string out(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    kVariant);
  out.pop_back();  // the zero that ends a C string
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  return decode(text, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

std::optional<std::string> from_base64(std::string_view text) { return decode(text, sodium_base64_VARIANT_ORIGINAL); }

}  // namespace kvern
