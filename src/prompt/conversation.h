// A conversation as chat templates expect to read it: a list of messages and tools in OpenAI's form, built from ir as
// values of the Jinja engine. What this room writes itself (roles, field names, types) is template text; everything
// that came from outside is marked as input. Private to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/request.h"
#include "jinja/value.h"

namespace kvern::prompt {

/// How one template wants to be spoken to; found out by trying (prompt/template_probe.h).
struct TemplateDialect {
  bool typed_content = false;     // content as a list of {type: text, text}
  bool string_arguments = false;  // call arguments as their text, not as an object
  bool tools_list = false;        // an empty list when there are no tools, not none
  bool thinking_key = false;      // reasoning as message.thinking, as gpt-oss reads it
  bool calls = false;             // prints calls and results, also where no tools are given
};

jinja::value conversation_messages(const std::vector<ir::Message>& messages, const TemplateDialect& dialect);
/// None when there are no tools, as most templates test for.
jinja::value conversation_tools(const std::vector<ir::Tool>& tools, const TemplateDialect& dialect);
/// A call's arguments as templates know them: those of a custom tool, which is raw text, as {"input": text}.
std::string argument_text(const ir::ToolCall& call);
/// A tool's schema likewise; empty: none.
std::string_view tool_schema(const ir::Tool& tool);
/// Bytes of everything the client wrote: what a rendering's budget grows with.
std::size_t conversation_bytes(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools);

}  // namespace kvern::prompt
