// The input of a request as it is kept and shown: an array of items, each with an id and a type, text as parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/responses/response_history.h"
#include "base/strong_id.h"

namespace kvern::api {

/// `input` of a body that decoded well. Items that were referred to stand in it themselves.
std::string items_to_store(const Fields& fields, RequestId id, const HistoryItems& history);

/// Which part of a list is asked for, as OpenAI's lists have it.
struct ListPage {
  std::uint32_t limit = 20;
  bool newest_first = true;
  std::string after;  // an id; empty: from the start
};
/// The parameters of a list's query by their names; an error names the one at fault.
Result<ListPage> decode_list_page(std::string_view limit, std::string_view order, std::string_view after);
/// {"object": "list", ...} of a stored input. An error where `after` is none of it.
Result<std::string> render_input_items(std::string_view input, const ListPage& page, const Limits& limits);

}  // namespace kvern::api
