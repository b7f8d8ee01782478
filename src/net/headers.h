// Header fields as a plain list, in the order and spelling of the wire.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvern::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The first value of a header by case-insensitive name.
std::optional<std::string_view> find_header(const Headers& headers, std::string_view name);

/// Equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace kvern::net
