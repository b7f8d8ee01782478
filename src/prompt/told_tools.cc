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

/// Cuts a conversation into messages just as conversation.cc does for templates that know tools: results stand apart
/// from what a user says, here all that follow one another in one turn, and thinking after a call begins a message.
class Teller {
 public:
  void add(const ir::Message& message) {
    bool open = false;  // the last of out_ takes more of this message
    bool called = false;
    bool spoke = false;
    for (const ir::Block& block : message.blocks) {
      if (const auto* result = std::get_if<ir::ToolResult>(&block.content)) {
        if (!in_results_) out_.push_back({ir::Role::kUser, {}, {}});
        in_results_ = true;
        open = false;
        append_result(*result, out_.back().blocks);
        continue;
      }
      const bool thinks = std::holds_alternative<ir::Thinking>(block.content);
      if (!open || (thinks && called)) {
        out_.push_back({message.role, message.name, {}});
        called = spoke = false;
      }
      open = true;
      in_results_ = false;
      const auto* call = std::get_if<ir::ToolCall>(&block.content);
      out_.back().blocks.push_back(call != nullptr ? ir::Block{call_text(*call, !spoke), block.cache} : block);
      called = called || call != nullptr;
      spoke = spoke || !thinks;
    }
    if (!message.blocks.empty()) return;
    if (message.role != ir::Role::kTool) out_.push_back(message);
    in_results_ = false;
  }

  std::vector<ir::Message> take() { return std::move(out_); }

 private:
  std::vector<ir::Message> out_;
  bool in_results_ = false;  // the last of out_ holds results
};

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
  Teller teller;
  for (const ir::Message& message : messages) teller.add(message);
  std::vector<ir::Message> out = teller.take();
  if (std::ranges::any_of(tools, is_callable)) put_tools(tools_text(tools), has_system, out);
  return out;
}

}  // namespace kvern::prompt
