// `tools` and `tool_choice` of a chat body.
#pragma once

#include <vector>

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// Functions, each with its schema's exact text. Order is kept: it is part of the prompt.
std::vector<ir::Tool> decode_chat_tools(const Fields& fields);
/// none and auto; required and named calls are not served yet.
ir::ToolChoice decode_chat_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools);

}  // namespace kvern::api
