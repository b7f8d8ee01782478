#include "prompt/conversation.h"

#include <optional>
#include <string_view>
#include <utility>

#include "prompt/json_value.h"

namespace kvern::prompt {
namespace {

using jinja::mk_val;

jinja::value ours(const std::string& text) { return mk_val<jinja::value_string>(text); }

jinja::value input(const std::string& text) {
  auto value = mk_val<jinja::value_string>(text);
  value->mark_input();
  return value;
}

jinja::value content(const std::string& text, const TemplateDialect& dialect) {
  if (!dialect.typed_content) return input(text);
  auto part = mk_val<jinja::value_object>();
  part->insert("type", ours("text"));
  part->insert("text", input(text));
  auto parts = mk_val<jinja::value_array>();
  parts->push_back(part);
  return parts;
}

jinja::value call(const ir::ToolCall& call, const TemplateDialect& dialect) {
  auto function = mk_val<jinja::value_object>();
  function->insert("name", input(call.name));
  // What a model wrote need not be JSON; then its text is all there is.
  std::optional<jinja::value> arguments;
  if (!dialect.string_arguments) arguments = json_value(call.arguments.empty() ? "{}" : call.arguments);
  function->insert("arguments", arguments ? *arguments : input(call.arguments));
  auto object = mk_val<jinja::value_object>();
  if (!call.id.empty()) object->insert("id", input(call.id));
  object->insert("type", ours("function"));
  object->insert("function", function);
  return object;
}

/// One message of the list under construction; several may come from one of ir (tool results stand alone).
class MessageBuilder {
 public:
  MessageBuilder(const ir::Message& message, const TemplateDialect& dialect, jinja::value_array_t& out)
      : message_(message), dialect_(dialect), out_(out) {}

  void build() {
    for (const ir::Block& block : message_.blocks) {
      std::visit([this](const auto& content) { add(content); }, block.content);
    }
    if (dirty_ || (message_.blocks.empty() && message_.role != ir::Role::kTool)) flush();
  }

 private:
  void add(const ir::Text& block) {
    text_ += block.text;
    dirty_ = true;
  }
  void add(const ir::Thinking& block) {
    thinking_ += block.text;
    dirty_ = true;
  }
  void add(const ir::ToolCall& block) {
    if (calls_ == nullptr) calls_ = mk_val<jinja::value_array>();
    calls_->push_back(call(block, dialect_));
    dirty_ = true;
  }
  void add(const ir::ToolResult& block) {
    if (dirty_) flush();
    std::string text;
    for (const ir::Text& part : block.parts) text += part.text;
    auto object = mk_val<jinja::value_object>();
    object->insert("role", ours("tool"));
    if (!block.name.empty()) object->insert("name", input(block.name));
    if (!block.call_id.empty()) object->insert("tool_call_id", input(block.call_id));
    object->insert("content", content(text, dialect_));
    out_.push_back(object);
  }

  void flush() {
    auto object = mk_val<jinja::value_object>();
    // Roles are our own words, so that templates which make a marker out of one ('<|' + role + '|>') still work.
    const ir::Role role = message_.role == ir::Role::kDeveloper ? ir::Role::kSystem : message_.role;
    object->insert("role", ours(ir::to_string(role)));
    if (!message_.name.empty()) object->insert("name", input(message_.name));
    if (!thinking_.empty() && dialect_.thinking_key && calls_ != nullptr && !text_.empty()) {
      // gpt-oss refuses a call that has both; the order they were written in is kept.
      thinking_ += "\n" + std::exchange(text_, {});
    }
    object->insert("content", content(text_, dialect_));
    if (!thinking_.empty()) {
      object->insert("reasoning_content", input(thinking_));
      if (dialect_.thinking_key) object->insert("thinking", input(thinking_));
    }
    if (calls_ != nullptr) object->insert("tool_calls", calls_);
    out_.push_back(object);
    text_.clear();
    thinking_.clear();
    calls_ = nullptr;
    dirty_ = false;
  }

  const ir::Message& message_;
  const TemplateDialect& dialect_;
  jinja::value_array_t& out_;
  std::string text_;
  std::string thinking_;
  jinja::value_array calls_;
  bool dirty_ = false;
};

struct BlockBytes {
  std::size_t operator()(const ir::Text& block) const { return block.text.size(); }
  std::size_t operator()(const ir::Thinking& block) const { return block.text.size(); }
  std::size_t operator()(const ir::ToolCall& block) const {
    return block.id.size() + block.name.size() + block.arguments.size();
  }
  std::size_t operator()(const ir::ToolResult& block) const {
    std::size_t bytes = block.call_id.size() + block.name.size();
    for (const ir::Text& part : block.parts) bytes += part.text.size();
    return bytes;
  }
};

}  // namespace

jinja::value conversation_messages(const std::vector<ir::Message>& messages, const TemplateDialect& dialect) {
  auto list = mk_val<jinja::value_array>();
  for (const ir::Message& message : messages) MessageBuilder(message, dialect, *list).build();
  return list;
}

jinja::value conversation_tools(const std::vector<ir::Tool>& tools, const TemplateDialect& dialect) {
  if (tools.empty() && !dialect.tools_list) return mk_val<jinja::value_none>();
  auto list = mk_val<jinja::value_array>();
  for (const ir::Tool& tool : tools) {
    auto function = mk_val<jinja::value_object>();
    function->insert("name", input(tool.name));
    if (!tool.description.empty()) function->insert("description", input(tool.description));
    if (!tool.parameters.empty()) {
      if (std::optional<jinja::value> parameters = json_value(tool.parameters)) {
        function->insert("parameters", *parameters);
      }
    }
    if (tool.strict) function->insert("strict", mk_val<jinja::value_bool>(true));
    auto object = mk_val<jinja::value_object>();
    object->insert("type", ours("function"));
    object->insert("function", function);
    list->push_back(object);
  }
  return list;
}

std::size_t conversation_bytes(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools) {
  std::size_t bytes = 0;
  for (const ir::Message& message : messages) {
    bytes += 64 + message.name.size();
    for (const ir::Block& block : message.blocks) bytes += 64 + std::visit(BlockBytes{}, block.content);
  }
  for (const ir::Tool& tool : tools) {
    bytes += 64 + tool.name.size() + tool.description.size() + tool.parameters.size();
  }
  return bytes;
}

}  // namespace kvern::prompt
