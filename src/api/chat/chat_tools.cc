#include "api/chat/chat_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/generation_fields.h"

namespace kvern::api {
namespace {

std::string tool_name(const Fields& inner) {
  std::string name;
  if (inner.required("name") && inner.string("name", Limit::kToolNameBytes, name) && !is_tool_name(name))
    inner.decoding().fail(inner.path("name"), "must be a name without spaces, quotes or angle brackets");
  return name;
}

void decode_function(const Fields& inner, ir::Tool& tool) {
  if (const auto schema = inner.object("parameters")) {
    if (inner.decoding().within(Limit::kToolSchemaBytes, schema->raw().size(), inner.path("parameters")))
      tool.parameters = schema->raw();
  }
  inner.boolean("strict", tool.strict);
}

void decode_grammar(const Fields& format, ir::Tool& tool) {
  Decoding& decoding = format.decoding();
  const auto object = format.object("grammar");
  if (!format.required("grammar") || !object) return;
  const Path path = format.path("grammar");
  const Fields fields(*object, path, decoding);
  std::string syntax;
  if (!fields.required("syntax") || !fields.string("syntax", syntax)) return;
  if (syntax != "lark" && syntax != "regex")
    return decoding.fail(fields.path("syntax"), fmt::format("must be lark or regex, not {}", shown(syntax)));
  ir::Grammar grammar;
  grammar.syntax = syntax == "lark" ? ir::Grammar::Syntax::kLark : ir::Grammar::Syntax::kRegex;
  if (fields.required("definition")) fields.string("definition", Limit::kToolSchemaBytes, grammar.definition);
  tool.grammar = std::move(grammar);
}

void decode_custom(const Fields& inner, ir::Tool& tool) {
  tool.kind = ir::ToolKind::kCustom;
  const auto object = inner.object("format");
  if (!object) return;
  const Path path = inner.path("format");
  const Fields format(*object, path, inner.decoding());
  std::string type;
  if (!format.required("type") || !format.string("type", type) || type == "text") return;
  if (type == "grammar") return decode_grammar(format, tool);
  inner.decoding().fail(format.path("type"), fmt::format("must be text or grammar, not {}", shown(type)));
}

void decode_tool(const Fields& fields, CacheMarks& marks, std::vector<ir::Tool>& out) {
  Decoding& decoding = fields.decoding();
  std::string type;
  if (!fields.required("type") || !fields.string("type", type)) return;
  if (type != "function" && type != "custom") {
    return decoding.unsupported(fields.path("type"),
                                fmt::format("only functions and custom tools, no tools of type {}", shown(type)));
  }
  if (!fields.required(type)) return;
  const auto object = fields.object(type);
  if (!object) return;
  const Path inner_path = fields.path(type);
  const Fields inner(*object, inner_path, decoding);
  ir::Tool tool;
  tool.name = tool_name(inner);
  inner.string("description", Limit::kToolDescriptionBytes, tool.description);
  type == "custom" ? decode_custom(inner, tool) : decode_function(inner, tool);
  tool.cache = marks.read(fields);
  out.push_back(std::move(tool));
}

/// "none", "auto", "required": alone, or as the mode of `allowed_tools`.
void decode_mode(std::string_view mode, const Path& path, const std::vector<ir::Tool>& tools, Decoding& decoding,
                 ir::ToolChoice& out) {
  if (mode == "none") {
    out.kind = ir::ToolChoice::Kind::kNone;
  } else if (mode == "required") {
    out.kind = ir::ToolChoice::Kind::kRequired;
    if (tools.empty()) decoding.fail(path, "needs `tools`");
  } else if (mode != "auto") {
    decoding.fail(path, fmt::format("must be none, auto, required or an object, not {}", shown(mode)));
  }
}

/// The name in {"type": T, T: {"name"}}; it must be that of a tool.
std::string chosen_name(const Fields& choice, const std::string& type, const std::vector<ir::Tool>& tools) {
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

void decode_allowed(const Fields& choice, const std::vector<ir::Tool>& tools, ir::ToolChoice& out) {
  Decoding& decoding = choice.decoding();
  const auto object = choice.object("allowed_tools");
  if (!choice.required("allowed_tools") || !object) return;
  const Path path = choice.path("allowed_tools");
  const Fields allowed(*object, path, decoding);
  std::string mode = "auto";
  allowed.string("mode", mode);
  decode_mode(mode, allowed.path("mode"), tools, decoding, out);
  if (!allowed.required("tools")) return;
  each_object(allowed, "tools", Limit::kTools, [&](const Fields& fields) {
    std::string type;
    if (!fields.required("type") || !fields.string("type", type)) return;
    if (type != "function" && type != "custom")
      return decoding.fail(fields.path("type"), fmt::format("must be function or custom, not {}", shown(type)));
    out.allowed.push_back(chosen_name(fields, type, tools));
  });
  if (out.allowed.empty()) out.kind = ir::ToolChoice::Kind::kNone;
}

void decode_choice(const Fields& choice, const std::vector<ir::Tool>& tools, ir::ToolChoice& out) {
  std::string type;
  if (!choice.required("type") || !choice.string("type", type)) return;
  if (type == "function" || type == "custom") {
    out.kind = ir::ToolChoice::Kind::kNamed;
    out.name = chosen_name(choice, type, tools);
  } else if (type == "allowed_tools") {
    decode_allowed(choice, tools, out);
  } else {
    choice.decoding().fail(choice.path("type"),
                           fmt::format("must be function, custom or allowed_tools, not {}", shown(type)));
  }
}

}  // namespace

std::vector<ir::Tool> decode_chat_tools(const Fields& fields, CacheMarks& marks) {
  std::vector<ir::Tool> out;
  each_object(fields, "tools", Limit::kTools, [&](const Fields& tool) { decode_tool(tool, marks, out); });
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
    decode_mode(choice->string(), path, tools, decoding, out);
  } else if (choice->is(json::Kind::kObject)) {
    decode_choice(Fields(*choice, path, decoding), tools, out);
  } else {
    decoding.wrong_type(path, "a string or an object", choice->kind());
  }
  return out;
}

}  // namespace kvern::api
