// The fields of a Responses body beside input and tools, and their echo in the response object.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/fields.h"
#include "base/strong_id.h"
#include "ir/request.h"

namespace kvern::api {

/// `reasoning`, `text`, `include`, `top_logprobs`, `max_output_tokens`.
void decode_responses_options(const Fields& fields, ir::Request& request);

/// What a body says about storing.
struct ResponsesState {
  bool store = true;  // as it will be done
  bool background = false;
  bool compacts = false;  // it is a conversation to be made short, not to be continued
  std::optional<RequestId> previous;
};
/// `stores`: there is a store. A `previous_response_id` that can be none of ours is not found.
ResponsesState decode_responses_state(const Fields& fields, bool stores);
/// "`previous_response_id` is not found: ..."
void previous_not_found(const Fields& fields);

/// The members of the response object that repeat the request, each with a comma behind; tools come as JSON.
std::string echo_of(const Fields& fields, const ResponsesState& state, std::string_view tools,
                    std::string_view tool_choice);

}  // namespace kvern::api
