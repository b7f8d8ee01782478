// `tools` and `tool_choice` of a chat body.
#pragma once

#include <vector>

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// Functions with their schemas' exact text, and custom tools. Order is kept: it is part of the prompt.
std::vector<ir::Tool> decode_chat_tools(const Fields& fields);
/// With `parallel_tool_calls`. Names must be among `tools`. Carried for the parser; nothing enforces it here.
ir::ToolChoice decode_chat_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools);

}  // namespace kvern::api
