// Everything of a Messages body that is no content: tools and their choice, thinking, the answer's form and length.
#pragma once

#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// `tools`: the client's own with their schemas' exact text; those of a server by name. Order is kept.
std::vector<ir::Tool> decode_messages_tools(const Fields& fields, CacheMarks& marks);
/// `tool_choice`; a named tool must be among `tools`.
ir::ToolChoice decode_messages_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools);
/// `thinking`, `output_config.effort` and what `context_management` says of old thinking. Other context edits are
/// accepted and left alone: nothing is taken out of what a client sent.
ir::Reasoning decode_messages_reasoning(const Fields& fields);
/// `output_config.format`, or its older spelling `output_format`.
ir::ResponseFormat decode_messages_format(const Fields& fields);
void decode_messages_sampling(const Fields& fields, ir::Sampling& out);
/// `max_tokens` and `stop_sequences`.
void decode_messages_stopping(const Fields& fields, ir::Stopping& out);

}  // namespace kvern::api
