// Ids of responses and of their items. An item's id names its response, so that a reference to an item needs no index.
//
//   resp_0123456789abcdef      msg_0123456789abcdef_0 (of the answer)      msg_0123456789abcdef_in0 (of the input)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/strong_id.h"

namespace kvern::api {

std::string response_name(RequestId id);
/// nullopt for what is no id of a response.
std::optional<RequestId> parse_response_name(std::string_view name);
/// The response that an item is of.
std::optional<RequestId> response_of_item(std::string_view item_id);

}  // namespace kvern::api
