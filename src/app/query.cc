#include "app/query.h"

#include "base/text.h"

namespace kvern::app {

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (one.substr(0, equals) != name) continue;
    return equals == std::string_view::npos ? std::string() : percent_decode(one.substr(equals + 1));
  }
  return std::nullopt;
}

}  // namespace kvern::app
