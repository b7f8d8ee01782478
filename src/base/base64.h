// Base64 of RFC 4648: the standard alphabet for media that clients send, the URL-safe one without padding for opaque
// texts of ours. O(bytes), nothing kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvern {

/// URL-safe, without padding.
std::string base64url(std::string_view bytes);
/// The bytes, or nullopt for what base64url() never writes.
std::optional<std::string> from_base64url(std::string_view text);
/// The bytes of the standard alphabet with its padding and no line breaks, else nullopt.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace kvern
