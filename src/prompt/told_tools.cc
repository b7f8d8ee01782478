#include "prompt/told_tools.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "prompt/conversation.h"

namespace kvern::prompt {
namespace {

bool is_callable(const ir::Tool& tool) { return tool.kind != ir::ToolKind::kHosted; }

bool is_about_tools(const ir::Block& block) {
  return std::holds_alternative<ir::ToolCall>(block.content) || std::holds_alternative<ir::ToolResult>(block.content);
}

void append_tool(const ir::Tool& tool, std::string& out) {
  out += '\n';
  json::Writer writer(out);
  writer.begin_object().member("type", "function").key("function").begin_object();
  writer.member("name", ir::prompt_name(tool.tool_namespace, tool.name));
  if (!tool.description.empty()) writer.member("description", tool.description);
  const std::string_view schema = tool_schema(tool);
  if (!schema.empty()) writer.key("parameters").raw(schema);
  writer.end_object().end_object();
}

std::string tools_text(const std::vector<ir::Tool>& tools) {
  std::string out =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const ir::Tool& tool : tools) {
    if (is_callable(tool)) append_tool(tool, out);
  }
  return out +
         "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n"
         R"({"name": <function-name>, "arguments": <args-json-object>})"
         "\n</tool_call>";
}

ir::Text call_text(const ir::ToolCall& call, bool first) {
  std::string out = first ? "<tool_call>\n{\"name\": " : "\n<tool_call>\n{\"name\": ";
  json::append_quoted(out, ir::prompt_name(call.tool_namespace, call.name));
  const std::string arguments = argument_text(call);
  return {out + ", \"arguments\": " + (arguments.empty() ? "{}" : arguments) + "}\n</tool_call>"};
}

/// Its images and files stay what they are.
void append_result(const ir::ToolResult& result, std::vector<ir::Block>& out) {
  out.push_back({ir::Text{out.empty() ? "<tool_response>\n" : "\n<tool_response>\n"}, {}});
  for (const ir::Part& part : result.parts) {
    std::visit([&](const auto& content) { out.push_back({content, {}}); }, part);
  }
  out.push_back({ir::Text{"\n</tool_response>"}, {}});
}

ir::Message told(const ir::Message& message) {
  ir::Message out{message.role == ir::Role::kTool ? ir::Role::kUser : message.role, message.name, {}};
  for (const ir::Block& block : message.blocks) {
    if (const auto* call = std::get_if<ir::ToolCall>(&block.content)) {
      out.blocks.push_back({call_text(*call, out.blocks.empty()), block.cache});
    } else if (const auto* result = std::get_if<ir::ToolResult>(&block.content)) {
      append_result(*result, out.blocks);
    } else {
      out.blocks.push_back(block);
    }
  }
  return out;
}

bool is_system(const ir::Message& message) {
  return message.role == ir::Role::kSystem || message.role == ir::Role::kDeveloper;
}

/// Behind what a system message says already; else before the first message of its role.
void put_tools(std::string text, bool has_system, std::vector<ir::Message>& out) {
  if (!has_system) {
    const auto user = std::ranges::find(out, ir::Role::kUser, &ir::Message::role);
    if (user != out.end()) {
      user->blocks.insert(user->blocks.begin(), {ir::Text{std::move(text) + "\n\n"}, {}});
      return;
    }
    out.insert(out.begin(), {ir::Role::kUser, {}, {{ir::Text{std::move(text)}, {}}}});
  } else if (!out.empty() && is_system(out.front())) {
    auto& blocks = out.front().blocks;
    blocks.push_back({ir::Text{(blocks.empty() ? "" : "\n\n") + std::move(text)}, {}});
  } else {
    out.insert(out.begin(), {ir::Role::kSystem, {}, {{ir::Text{std::move(text)}, {}}}});
  }
}

}  // namespace

bool needs_telling(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools) {
  return std::ranges::any_of(tools, is_callable) || std::ranges::any_of(messages, [](const ir::Message& message) {
           return std::ranges::any_of(message.blocks, is_about_tools);
         });
}

std::vector<ir::Message> with_told_tools(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                         bool has_system) {
  std::vector<ir::Message> out;
  out.reserve(messages.size() + 1);
  for (const ir::Message& message : messages) {
    ir::Message next = told(message);
    // Results stand together in one turn, as templates with tools have them.
    const bool goes_on = message.role == ir::Role::kTool && !out.empty() && out.back().role == ir::Role::kUser &&
                         &message != messages.data() && (&message - 1)->role == ir::Role::kTool;
    if (!goes_on) {
      out.push_back(std::move(next));
      continue;
    }
    out.back().blocks.push_back({ir::Text{"\n"}, {}});
    for (ir::Block& block : next.blocks) out.back().blocks.push_back(std::move(block));
  }
  if (std::ranges::any_of(tools, is_callable)) put_tools(tools_text(tools), has_system, out);
  return out;
}

}  // namespace kvern::prompt
