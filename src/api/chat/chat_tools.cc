#include "api/chat/chat_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/generation_fields.h"

namespace kvern::api {
namespace {

/// `format` of a custom tool: {"type": "text"}, or {"type": "grammar", "grammar": {"syntax", "definition"}}.
void decode_input_format(const Fields& custom, ir::Tool& tool) {
  const auto format = custom.object("format");
  if (!format) return;
  Decoding& decoding = custom.decoding();
  const Path path = custom.path("format");
  const Fields fields(*format, path, decoding);
  std::string type;
  if (!fields.required("type") || !fields.string("type", type) || type == "text") return;
  if (type != "grammar")
    return decoding.fail(fields.path("type"), fmt::format("must be text or grammar, not {}", shown(type)));
  const auto object = fields.object("grammar");
  if (!fields.required("grammar") || !object) return;
  const Path inner_path = fields.path("grammar");
  const Fields inner(*object, inner_path, decoding);
  ir::Grammar grammar;
  std::string syntax;
  if (!inner.required("syntax") || !inner.string("syntax", syntax)) return;
  if (syntax != "lark" && syntax != "regex")
    return decoding.fail(inner.path("syntax"), fmt::format("must be lark or regex, not {}", shown(syntax)));
  grammar.syntax = syntax == "lark" ? ir::Grammar::Syntax::kLark : ir::Grammar::Syntax::kRegex;
  if (inner.required("definition")) inner.string("definition", Limit::kToolSchemaBytes, grammar.definition);
  tool.grammar = std::move(grammar);
}

void decode_tool(json::Value value, const Path& path, Decoding& decoding, std::vector<ir::Tool>& out) {
  if (!value.is(json::Kind::kObject)) return decoding.wrong_type(path, "an object", value.kind());
  const Fields fields(value, path, decoding);
  std::string type;
  if (!fields.required("type") || !fields.string("type", type)) return;
  const bool custom = type == "custom";
  if (!custom && type != "function") {
    return decoding.unsupported(fields.path("type"),
                                fmt::format("only functions and custom tools, no tools of type {}", shown(type)));
  }
  if (!fields.required(type)) return;
  const auto object = fields.object(type);
  if (!object) return;
  const Path inner_path = fields.path(type);
  const Fields inner(*object, inner_path, decoding);
  ir::Tool tool;
  if (inner.required("name") && inner.string("name", Limit::kToolNameBytes, tool.name) && !is_tool_name(tool.name))
    decoding.fail(inner.path("name"), "must be a name without spaces, quotes or angle brackets");
  inner.string("description", Limit::kToolDescriptionBytes, tool.description);
  if (custom) {
    tool.kind = ir::ToolKind::kCustom;
    decode_input_format(inner, tool);
  } else {
    const auto schema = inner.object("parameters");
    if (schema && decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), inner.path("parameters")))
      tool.parameters = schema->raw();
    inner.boolean("strict", tool.strict);
  }
  out.push_back(std::move(tool));
}

/// The name in {"type": T, T: {"name": ...}}, which must be a tool's.
std::string chosen_name(const Fields& choice, std::string_view type, const std::vector<ir::Tool>& tools) {
  const auto object = choice.object(type);
  if (!choice.required(type) || !object) return {};
  const Path path = choice.path(type);
  const Fields inner(*object, path, choice.decoding());
  std::string name;
  if (!inner.required("name") || !inner.string("name", Limit::kToolNameBytes, name)) return {};
  if (std::ranges::find(tools, name, &ir::Tool::name) == tools.end())
    choice.decoding().fail(inner.path("name"), "is none of `tools`: " + shown(name));
  return name;
}

/// A choice as a word, or the `mode` of allowed tools.
void decode_mode(std::string_view mode, const Path& path, bool has_tools, Decoding& decoding, ir::ToolChoice& out) {
  if (mode == "none") {
    out.kind = ir::ToolChoice::Kind::kNone;
  } else if (mode == "required") {
    out.kind = ir::ToolChoice::Kind::kRequired;
    if (!has_tools) decoding.fail(path, "needs `tools`");
  } else if (mode != "auto") {
    decoding.fail(path, fmt::format("must be none, auto, required or an object, not {}", shown(mode)));
  }
}

/// {"type": "allowed_tools", "allowed_tools": {"mode", "tools": [...]}}.
void decode_allowed(const Fields& choice, const std::vector<ir::Tool>& tools, ir::ToolChoice& out) {
  Decoding& decoding = choice.decoding();
  const auto object = choice.object("allowed_tools");
  if (!choice.required("allowed_tools") || !object) return;
  const Path object_path = choice.path("allowed_tools");
  const Fields allowed(*object, object_path, decoding);
  std::string mode = "auto";
  allowed.string("mode", mode);
  decode_mode(mode, allowed.path("mode"), !tools.empty(), decoding, out);
  const auto list = allowed.array("tools");
  if (!allowed.required("tools") || !list) return;
  const Path path = allowed.path("tools");
  if (!decoding.within(Limit::kTools, list->size(), path)) return;
  std::size_t index = 0;
  for (const auto& child : list->children()) {
    const Path place = element_of(path, index++);
    if (!child.value.is(json::Kind::kObject)) return decoding.wrong_type(place, "an object", child.value.kind());
    const Fields fields(child.value, place, decoding);
    std::string type;
    if (!fields.required("type") || !fields.string("type", type)) return;
    if (type != "function" && type != "custom")
      return decoding.fail(fields.path("type"), fmt::format("must be function or custom, not {}", shown(type)));
    out.allowed.push_back(chosen_name(fields, type, tools));
  }
  // An empty list allows nothing.
  if (out.allowed.empty()) out.kind = ir::ToolChoice::Kind::kNone;
}

}  // namespace

std::vector<ir::Tool> decode_chat_tools(const Fields& fields) {
  std::vector<ir::Tool> out;
  const auto tools = fields.array("tools");
  if (!tools) return out;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("tools");
  if (!decoding.within(Limit::kTools, tools->size(), path)) return out;
  std::size_t index = 0;
  for (const auto& child : tools->children()) {
    if (decoding.failed()) break;
    decode_tool(child.value, element_of(path, index++), decoding, out);
  }
  return out;
}

ir::ToolChoice decode_chat_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools) {
  ir::ToolChoice out;
  Decoding& decoding = fields.decoding();
  fields.boolean("parallel_tool_calls", out.parallel);
  const auto choice = fields.find("tool_choice");
  if (!choice) return out;
  const Path path = fields.path("tool_choice");
  if (choice->is(json::Kind::kString)) {
    decode_mode(choice->string(), path, !tools.empty(), decoding, out);
    return out;
  }
  if (!choice->is(json::Kind::kObject)) {
    decoding.wrong_type(path, "a string or an object", choice->kind());
    return out;
  }
  const Fields inner(*choice, path, decoding);
  std::string type;
  if (!inner.required("type") || !inner.string("type", type)) return out;
  if (type == "function" || type == "custom") {
    out.kind = ir::ToolChoice::Kind::kNamed;
    out.name = chosen_name(inner, type, tools);
  } else if (type == "allowed_tools") {
    decode_allowed(inner, tools, out);
  } else {
    decoding.fail(inner.path("type"), fmt::format("must be function, custom or allowed_tools, not {}", shown(type)));
  }
  return out;
}

}  // namespace kvern::api
