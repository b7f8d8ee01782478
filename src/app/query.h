// The query of a request's target.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvern::app {

/// The value of the first parameter `name` in `a=b&c=d`, percent-decoded; nullopt where there is none, or none that can
/// be decoded. A parameter without "=" has the empty value.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace kvern::app
