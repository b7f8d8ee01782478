// `tools`, `tool_choice` and `parallel_tool_calls` of a Responses body.
//
// Functions, custom tools, namespaces of both, and a tool search that the client runs are offered to the model. Tools
// that a server would have to run (web_search, file_search, mcp, code_interpreter...) and kinds nobody has told us
// about are kept in the ir, offered to nobody, left out of the echo and told to the log: clients such as Codex always
// send some, and can do without.
#pragma once

#include <string>
#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "api/responses/tool_names.h"
#include "ir/request.h"

namespace kvern::api {

struct ResponsesTools {
  std::vector<ir::Tool> tools;
  std::vector<ir::ToolNamespace> namespaces;
  ToolNames names;
  std::string echo;                   // a JSON array of those in force
  std::vector<std::string> left_out;  // "tools[3] web_search"
};

/// Reads the array `tools` of an object, if it is there. Two tools whom the model would know by one name are a fault.
/// Without `marks` those on tools are not read.
ResponsesTools decode_responses_tools(const Fields& fields, CacheMarks* marks);

/// With `echo` as JSON. A choice that names a tool needs it to be there.
ir::ToolChoice decode_responses_tool_choice(const Fields& fields, const ResponsesTools& tools, std::string& echo);

/// Tools as text for the model to read in the middle of a conversation: one JSON object a line, by the names it is to
/// call them.
std::string describe_tools(const std::vector<ir::Tool>& tools);

}  // namespace kvern::api
