#include "api/base64.h"

#include <array>
#include <cstdint>

namespace kvern::api {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t kNone = 0xFF;

constexpr std::array<std::uint8_t, 256> values_of(std::string_view alphabet) {
  std::array<std::uint8_t, 256> out{};
  out.fill(kNone);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    out[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  return out;
}
constexpr auto kUrlValues = values_of(kAlphabet);
constexpr auto kStandardValues = values_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

std::uint8_t value_of(char c) { return kUrlValues[static_cast<unsigned char>(c)]; }

}  // namespace

std::string base64url(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (held += 8; held >= 6;) out += kAlphabet[(bits >> static_cast<unsigned>(held -= 6)) & 63U];
  }
  if (held > 0) out += kAlphabet[(bits << static_cast<unsigned>(6 - held)) & 63U];
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::uint8_t value = value_of(c);
    if (value == kNone) return std::nullopt;
    bits = (bits << 6U) | value;
    held += 6;
    if (held >= 8) out += static_cast<char>((bits >> static_cast<unsigned>(held -= 8)) & 0xFFU);
  }
  // What is left over is zero in all that we write: two texts never stand for the same bytes.
  if ((bits & ((1U << static_cast<unsigned>(held)) - 1U)) != 0) return std::nullopt;
  return out;
}

bool is_base64(std::string_view text) noexcept {
  if (text.empty() || text.size() % 4 != 0) return false;
  if (text.ends_with('=')) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  for (const char c : text) {
    if (kStandardValues[static_cast<unsigned char>(c)] == kNone) return false;
  }
  return true;
}

}  // namespace kvern::api
