// The fields of a Responses body beside input and tools, and their echo in the response object.
#pragma once

#include <string>

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// `reasoning`, `text`, `include`, `top_logprobs`, `max_output_tokens`.
void decode_responses_options(const Fields& fields, ir::Request& request);
/// What needs stored answers is not found or not supported.
void refuse_state(const Fields& fields);
/// The members of the response object that repeat the request, each with a comma behind; tools come as JSON.
std::string echo_of(const Fields& fields, std::string_view tools, std::string_view tool_choice);

}  // namespace kvern::api
