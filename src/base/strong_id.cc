#include "base/strong_id.h"

namespace kvern {

std::string hex64(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4U) text[static_cast<std::size_t>(i)] = kDigits[value & 0xFU];
  return text;
}

}  // namespace kvern
