#include "prompt/conversation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
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

/// Templates know functions only: a custom tool is one whose single argument is the raw text.
constexpr std::string_view kRawInputSchema =
    R"({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]})";

jinja::value call(const ir::ToolCall& call, const TemplateDialect& dialect) {
  auto function = mk_val<jinja::value_object>();
  function->insert("name", input(ir::prompt_name(call.tool_namespace, call.name)));
  // What a model wrote need not be JSON; then its text is all there is.
  const std::string text = argument_text(call);
  std::optional<jinja::value> arguments;
  if (!dialect.string_arguments) arguments = json_value(text.empty() ? "{}" : text);
  function->insert("arguments", arguments ? *arguments : input(text));
  auto object = mk_val<jinja::value_object>();
  if (!call.id.empty()) object->insert("id", input(call.id));
  object->insert("type", ours("function"));
  object->insert("function", function);
  return object;
}

/// A plain document as text: what is known about it first, so that it is the same in every turn.
std::string document_text(const ir::Document& document) {
  std::string out = "<document>\n";
  if (!document.title.empty()) out += "<title>" + document.title + "</title>\n";
  if (!document.context.empty()) out += "<context>" + document.context + "</context>\n";
  return out + document.text + "\n</document>";
}

/// Text of a part; images and bytes have none (the pipeline lets through only what the model takes).
struct PartText {
  std::string operator()(const ir::Text& part) const { return part.text; }
  std::string operator()(const ir::Document& part) const { return part.data.empty() ? document_text(part) : ""; }
  std::string operator()(const ir::Image&) const { return {}; }
};

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
  void add(const ir::Document& block) {
    text_ += PartText{}(block);
    dirty_ = true;
  }
  void add(const ir::Image&) {}
  void add(const ir::RedactedThinking&) {}
  void add(const ir::Thinking& block) {
    // Thought between calls is a message of its own with the calls it led to: in one message templates would print all
    // thinking first, and the prompt would not say what the model said.
    if (calls_ != nullptr) flush();
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
    for (const ir::Part& part : block.parts) text += std::visit(PartText{}, part);
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
  std::size_t operator()(const ir::RedactedThinking&) const { return 0; }
  std::size_t operator()(const ir::Image&) const { return 0; }
  std::size_t operator()(const ir::Document& block) const {
    return block.text.size() + block.title.size() + block.context.size();
  }
  std::size_t operator()(const ir::ToolCall& block) const {
    return block.id.size() + block.tool_namespace.size() + block.name.size() + block.arguments.size();
  }
  std::size_t operator()(const ir::ToolResult& block) const {
    std::size_t bytes = block.call_id.size() + block.name.size();
    for (const ir::Part& part : block.parts) bytes += std::visit(*this, part);
    return bytes;
  }
};

}  // namespace

std::string argument_text(const ir::ToolCall& call) {
  if (call.kind != ir::ToolKind::kCustom) return call.arguments;
  std::string out = R"({"input": )";
  json::append_quoted(out, call.arguments);
  return out + "}";
}

std::string_view tool_schema(const ir::Tool& tool) {
  return tool.kind == ir::ToolKind::kCustom ? kRawInputSchema : std::string_view(tool.parameters);
}

jinja::value conversation_messages(const std::vector<ir::Message>& messages, const TemplateDialect& dialect) {
  auto list = mk_val<jinja::value_array>();
  for (const ir::Message& message : messages) MessageBuilder(message, dialect, *list).build();
  return list;
}

jinja::value conversation_tools(const std::vector<ir::Tool>& tools, const TemplateDialect& dialect) {
  const auto callable = [](const ir::Tool& tool) { return tool.kind != ir::ToolKind::kHosted; };
  if (std::ranges::none_of(tools, callable) && !dialect.tools_list) return mk_val<jinja::value_none>();
  auto list = mk_val<jinja::value_array>();
  for (const ir::Tool& tool : tools) {
    if (!callable(tool)) continue;
    auto function = mk_val<jinja::value_object>();
    function->insert("name", input(ir::prompt_name(tool.tool_namespace, tool.name)));
    if (!tool.description.empty()) function->insert("description", input(tool.description));
    const std::string_view schema = tool_schema(tool);
    if (!schema.empty()) {
      if (std::optional<jinja::value> parameters = json_value(schema)) {
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
