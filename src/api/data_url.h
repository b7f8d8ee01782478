// `data:` URLs: the only ones kvern takes, since it fetches none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvern::api {

struct DataUrl {
  std::string media_type;  // without parameters, in lower case; "text/plain" where none is given
  std::string base64;      // checked, with its padding
};

/// nullopt unless it is `data:[type][;parameters];base64,DATA` with valid base64.
std::optional<DataUrl> parse_data_url(std::string_view url);

}  // namespace kvern::api
