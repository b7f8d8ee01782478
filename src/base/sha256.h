// SHA-256 (FIPS 180-4): for names that others must not be able to forge or guess at. Not for passwords.
#pragma once

#include <string>
#include <string_view>

namespace kvern {

/// 64 lower-case hex digits. About 5 ns a byte.
std::string sha256_hex(std::string_view bytes);

}  // namespace kvern
