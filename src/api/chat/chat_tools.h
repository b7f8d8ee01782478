// `tools` and `tool_choice` of a chat body.
#pragma once

#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// Functions, each with its schema's exact text, and custom tools. Order is kept: it is part of the prompt.
std::vector<ir::Tool> decode_chat_tools(const Fields& fields, CacheMarks& marks);
/// With `parallel_tool_calls`. A tool that is named must be among `tools`. Carried in the ir; nothing enforces it yet.
ir::ToolChoice decode_chat_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools);

}  // namespace kvern::api
