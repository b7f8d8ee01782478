#include "prompt/told_tools.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "prompt/conversation.h"

namespace kvern::prompt {
namespace {

constexpr std::string_view kHead =
    "# Tools\n\nYou can call the functions below, each given as JSON with its name, what it does, and a schema of its "
    "arguments:\n<tools>\n";
constexpr std::string_view kTail =
    "</tools>\n\nTo call one, write a JSON object with its name and its arguments between tool_call tags, and nothing "
    "after it; several calls stand one after the other:\n<tool_call>\n{\"name\": <function name>, \"arguments\": "
    "<arguments as a JSON object>}\n</tool_call>\nThe results come back between tool_response tags.";

bool is_callable(const ir::Tool& tool) { return tool.kind != ir::ToolKind::kHosted; }

std::string section(const std::vector<ir::Tool>& tools) {
  std::string out;
  for (const ir::Tool& tool : tools) {
    if (!is_callable(tool)) continue;
    json::Writer writer(out);
    writer.begin_object().member("name", ir::prompt_name(tool.tool_namespace, tool.name));
    if (!tool.description.empty()) writer.member("description", tool.description);
    if (const std::string_view schema = tool_schema(tool); !schema.empty()) writer.key("parameters").raw(schema);
    writer.end_object();
    out += '\n';
  }
  if (out.empty()) return out;
  return std::string(kHead) + out + std::string(kTail);
}

std::string call_text(const ir::ToolCall& call) {
  std::string out = "<tool_call>\n{\"name\": ";
  json::append_quoted(out, ir::prompt_name(call.tool_namespace, call.name));
  const std::string arguments = argument_text(call);
  return out + ", \"arguments\": " + (arguments.empty() ? "{}" : arguments) + "}\n</tool_call>";
}

class Rewriter {
 public:
  void add(const ir::Message& message) {
    const bool is_results = std::ranges::any_of(
        message.blocks, [](const ir::Block& block) { return std::holds_alternative<ir::ToolResult>(block.content); });
    const bool of_user = message.role == ir::Role::kUser || message.role == ir::Role::kTool;
    // Templates that want turns to alternate see one: the results, and what the user says behind them.
    const bool joins = after_results_ && of_user;
    if (!joins) {
      const bool of_tool = message.role == ir::Role::kTool;
      out_.push_back({of_tool ? ir::Role::kUser : message.role, of_tool ? std::string() : message.name, {}});
      after_call_ = false;
      has_text_ = false;
    }
    after_results_ = of_user && (is_results || joins);
    for (const ir::Block& block : message.blocks)
      std::visit([&](const auto& content) { put(block, content); }, block.content);
  }
  std::vector<ir::Message> take() { return std::move(out_); }

 private:
  void put(const ir::Block& block, const ir::ToolCall& call) {
    text(block.cache, call_text(call));
    after_call_ = true;
  }
  /// Its images and files stay what they are.
  void put(const ir::Block& block, const ir::ToolResult& result) {
    text({}, "<tool_response>\n");
    for (const ir::Part& part : result.parts)
      std::visit([&](const auto& content) { out_.back().blocks.push_back({content, std::nullopt}); }, part);
    out_.back().blocks.push_back({ir::Text{"\n</tool_response>"}, block.cache});
  }
  void put(const ir::Block& block, const ir::Thinking&) {
    // Thought between calls begins a message, as in conversation.cc.
    if (after_call_) {
      out_.push_back({out_.back().role, {}, {}});
      after_call_ = false;
      has_text_ = false;
    }
    out_.back().blocks.push_back(block);
  }
  void put(const ir::Block& block, const ir::Text& content) {
    if (!after_results_ || !has_text_) {
      has_text_ = has_text_ || !content.text.empty();
      out_.back().blocks.push_back(block);
    } else {
      text(block.cache, content.text);
    }
  }
  void put(const ir::Block& block, const auto&) { out_.back().blocks.push_back(block); }

  /// On a line of its own.
  void text(std::optional<ir::CacheMark> cache, std::string content) {
    if (has_text_) content.insert(0, "\n");
    has_text_ = true;
    out_.back().blocks.push_back({ir::Text{std::move(content)}, cache});
  }

  std::vector<ir::Message> out_;
  bool after_results_ = false;  // the last message holds results
  bool after_call_ = false;     // the last block of the last message is a call
  bool has_text_ = false;       // of the last message
};

bool is_about_tools(const ir::Block& block) {
  return std::holds_alternative<ir::ToolCall>(block.content) || std::holds_alternative<ir::ToolResult>(block.content);
}

bool is_system(const ir::Message& message) {
  return message.role == ir::Role::kSystem || message.role == ir::Role::kDeveloper;
}

void put_first(std::string section, bool system, std::vector<ir::Message>& messages) {
  const auto place = system ? messages.begin() : std::ranges::find(messages, ir::Role::kUser, &ir::Message::role);
  const bool there = place != messages.end() && (!system || is_system(*place));
  if (there) {
    place->blocks.insert(place->blocks.begin(), {ir::Text{std::move(section) + "\n\n"}, std::nullopt});
  } else {
    const ir::Role role = system ? ir::Role::kSystem : ir::Role::kUser;
    messages.insert(messages.begin(), {role, "", {{ir::Text{std::move(section)}, std::nullopt}}});
  }
}

}  // namespace

bool needs_telling(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools, bool prints_calls) {
  if (std::ranges::any_of(tools, is_callable)) return true;
  return !prints_calls && std::ranges::any_of(messages, [](const ir::Message& message) {
    return std::ranges::any_of(message.blocks, is_about_tools);
  });
}

std::vector<ir::Message> with_told_tools(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                         bool has_system) {
  Rewriter rewriter;
  for (const ir::Message& message : messages) rewriter.add(message);
  std::vector<ir::Message> out = rewriter.take();
  if (std::string text = section(tools); !text.empty()) put_first(std::move(text), has_system, out);
  return out;
}

}  // namespace kvern::prompt
