#include "api/responses/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/generation_fields.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

constexpr std::string_view kToolSearchName = "tool_search";
/// How the prompt describes a custom tool: a function of its raw text.
constexpr std::string_view kRawInputSchema =
    R"({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]})";

/// An object as it was written, with null for each of `keys` that it lacks.
std::string with_keys(json::Value object, std::initializer_list<std::string_view> keys) {
  std::string out(object.raw());
  out.pop_back();  // its brace
  for (const std::string_view key : keys) {
    if (!object.find(key)) out.append(",\"").append(key).append("\":null");
  }
  return out + "}";
}

class ToolsDecoder {
 public:
  ToolsDecoder(Decoding& decoding, CacheMarks* marks) : decoding_(decoding), marks_(marks) {}

  /// The tools of an array; inside a namespace only those it can hold.
  void add_all(json::Value array, const Path& path, const std::string& space) {
    std::size_t index = 0;
    for (const auto& child : array.children()) {
      if (decoding_.failed()) return;
      add(child.value, element_of(path, index++), space);
    }
  }
  ResponsesTools take() {
    out_.echo = "[" + echo_ + "]";
    return std::move(out_);
  }

 private:
  void add(json::Value value, const Path& path, const std::string& space) {
    if (!decoding_.within(Limit::kTools, out_.tools.size() + 1, path)) return;
    if (!value.is(json::Kind::kObject)) return decoding_.wrong_type(path, "an object", value.kind());
    const Fields fields(value, path, decoding_);
    std::string type;
    if (!fields.required("type") || !fields.string("type", Limit::kNameBytes, type)) return;
    const bool inside = !space.empty();
    if (type == "function") {
      add_function(fields, space);
      if (!inside) echo(with_keys(value, {"name", "description", "parameters", "strict"}));
    } else if (type == "custom") {
      add_custom(fields, space);
      if (!inside) echo(value.raw());
    } else if (type == "namespace" && !inside) {
      add_namespace(fields);
      echo(value.raw());
    } else if (type == "tool_search" && !inside && is_run_by_client(fields)) {
      add_search(fields);
      echo(value.raw());
    } else {
      leave_out(std::move(type), path, space);
    }
  }

  void add_function(const Fields& fields, const std::string& space) {
    ir::Tool tool = named_tool(fields, space, ir::ToolKind::kFunction);
    read_parameters(fields, tool);
    fields.boolean("strict", tool.strict);
    keep(std::move(tool), ItemTool::kFunction, fields, "name");
  }

  void add_custom(const Fields& fields, const std::string& space) {
    ir::Tool tool = named_tool(fields, space, ir::ToolKind::kCustom);
    if (const auto format = fields.object("format")) {
      const Path path = fields.path("format");
      read_format(Fields(*format, path, decoding_), tool);
    }
    keep(std::move(tool), ItemTool::kCustom, fields, "name");
  }

  void read_format(const Fields& fields, ir::Tool& tool) {
    std::string type;
    if (!fields.required("type") || !fields.string("type", type) || type == "text") return;
    if (type != "grammar") {
      return decoding_.fail(fields.path("type"), fmt::format("must be text or grammar, not {}", shown(type)));
    }
    ir::Grammar grammar;
    std::string syntax;
    if (!fields.required("syntax") || !fields.string("syntax", syntax)) return;
    if (syntax != "lark" && syntax != "regex") {
      return decoding_.fail(fields.path("syntax"), fmt::format("must be lark or regex, not {}", shown(syntax)));
    }
    grammar.syntax = syntax == "lark" ? ir::Grammar::Syntax::kLark : ir::Grammar::Syntax::kRegex;
    if (fields.required("definition")) fields.string("definition", Limit::kToolSchemaBytes, grammar.definition);
    tool.grammar = std::move(grammar);
  }

  void add_namespace(const Fields& fields) {
    ir::ToolNamespace space;
    if (fields.required("name") && fields.string("name", Limit::kToolNameBytes, space.name) &&
        !is_tool_name(space.name)) {
      decoding_.fail(fields.path("name"), "must be a name without spaces, quotes or angle brackets");
    }
    fields.string("description", Limit::kToolDescriptionBytes, space.description);
    const auto tools = fields.array("tools");
    if (!fields.required("tools") || !tools || decoding_.failed()) return;
    add_all(*tools, fields.path("tools"), space.name);
    out_.namespaces.push_back(std::move(space));
  }

  static bool is_run_by_client(const Fields& fields) {
    std::string execution;
    return fields.string("execution", execution) && execution == "client";
  }

  void add_search(const Fields& fields) {
    ir::Tool tool;
    tool.name = kToolSearchName;
    fields.string("description", Limit::kToolDescriptionBytes, tool.description);
    read_parameters(fields, tool);
    keep(std::move(tool), ItemTool::kToolSearch, fields, "type");
  }

  void leave_out(std::string type, const Path& path, const std::string& space) {
    out_.left_out.push_back(path.str() + " " + shown(type));
    ir::Tool tool;
    tool.name = std::move(type);
    tool.kind = ir::ToolKind::kHosted;
    tool.tool_namespace = space;
    out_.tools.push_back(std::move(tool));
  }

  ir::Tool named_tool(const Fields& fields, const std::string& space, ir::ToolKind kind) {
    ir::Tool tool;
    tool.kind = kind;
    tool.tool_namespace = space;
    if (fields.required("name") && fields.string("name", Limit::kToolNameBytes, tool.name) &&
        !is_tool_name(tool.name)) {
      decoding_.fail(fields.path("name"), "must be a name without spaces, quotes or angle brackets");
    }
    fields.string("description", Limit::kToolDescriptionBytes, tool.description);
    return tool;
  }

  void read_parameters(const Fields& fields, ir::Tool& tool) {
    const auto schema = fields.object("parameters");
    if (schema && decoding_.within(Limit::kToolSchemaBytes, schema->raw().size(), fields.path("parameters"))) {
      tool.parameters = schema->raw();
    }
  }

  /// `named` is the field that its name came from.
  void keep(ir::Tool tool, ItemTool item, const Fields& fields, std::string_view named) {
    const std::string name = ir::prompt_name(tool.tool_namespace, tool.name);
    if (out_.names.contains(name)) return decoding_.fail(fields.path(named), "stands for two tools: " + shown(name));
    if (marks_ != nullptr && !decoding_.failed()) tool.cache = marks_->read(fields);
    out_.names.add(name, {item, tool.tool_namespace, tool.name});
    out_.tools.push_back(std::move(tool));
  }

  void echo(std::string_view json) {
    if (!echo_.empty()) echo_ += ',';
    echo_ += json;
  }

  Decoding& decoding_;
  CacheMarks* const marks_;
  ResponsesTools out_;
  std::string echo_;
};

/// The prompt name of the tool that a choice names; a fault where there is none.
std::string chosen_name(const Fields& choice, const ResponsesTools& tools) {
  std::string space;
  std::string name;
  if (!choice.required("name") || !choice.string("name", Limit::kToolNameBytes, name)) return {};
  choice.string("namespace", Limit::kToolNameBytes, space);
  std::string out = ir::prompt_name(space, name);
  if (!tools.names.contains(out)) choice.decoding().fail(choice.path("name"), "is none of `tools`: " + shown(name));
  return out;
}

/// A choice as a word, or its `mode`.
void decode_mode(std::string_view mode, const Path& path, const ResponsesTools& tools, Decoding& decoding,
                 ir::ToolChoice& out) {
  if (mode == "none") {
    out.kind = ir::ToolChoice::Kind::kNone;
  } else if (mode == "required") {
    out.kind = ir::ToolChoice::Kind::kRequired;
    if (tools.tools.empty()) decoding.fail(path, "needs `tools`");
  } else if (mode != "auto") {
    decoding.fail(path, fmt::format("must be none, auto, required or an object, not {}", shown(mode)));
  }
}

/// Which tools may be called; of those a server would run, none can.
void decode_allowed(const Fields& choice, const ResponsesTools& tools, ir::ToolChoice& out) {
  Decoding& decoding = choice.decoding();
  std::string mode = "auto";
  choice.string("mode", mode);
  decode_mode(mode, choice.path("mode"), tools, decoding, out);
  if (!choice.required("tools")) return;
  each_object(choice, "tools", Limit::kTools, [&](const Fields& fields) {
    std::string type;
    if (!fields.required("type") || !fields.string("type", type)) return;
    if (type == "function" || type == "custom") {
      out.allowed.push_back(chosen_name(fields, tools));
    } else if (type == kToolSearchName && tools.names.contains(std::string(kToolSearchName))) {
      out.allowed.emplace_back(kToolSearchName);
    }
  });
  // A list of nothing that can be called allows nothing.
  if (out.allowed.empty()) out.kind = ir::ToolChoice::Kind::kNone;
}

void decode_object(const Fields& choice, const ResponsesTools& tools, ir::ToolChoice& out) {
  std::string type;
  if (!choice.required("type") || !choice.string("type", type)) return;
  if (type == "function" || type == "custom") {
    out.kind = ir::ToolChoice::Kind::kNamed;
    out.name = chosen_name(choice, tools);
  } else if (type == "allowed_tools") {
    decode_allowed(choice, tools, out);
  } else {
    choice.decoding().unsupported(choice.path("type"), fmt::format("no tool of type {} can be run", shown(type)));
  }
}

}  // namespace

ResponsesTools decode_responses_tools(const Fields& fields, CacheMarks* marks) {
  constexpr std::string_view kKey = "tools";
  ToolsDecoder decoder(fields.decoding(), marks);
  if (const auto tools = fields.array(kKey)) decoder.add_all(*tools, fields.path(kKey), {});
  return decoder.take();
}

ir::ToolChoice decode_responses_tool_choice(const Fields& fields, const ResponsesTools& tools, std::string& echo) {
  ir::ToolChoice out;
  Decoding& decoding = fields.decoding();
  fields.boolean("parallel_tool_calls", out.parallel);
  const auto choice = fields.find("tool_choice");
  echo = choice ? choice->raw() : std::string_view("\"auto\"");
  if (!choice) return out;
  const Path path = fields.path("tool_choice");
  if (choice->is(json::Kind::kString)) {
    decode_mode(choice->string(), path, tools, decoding, out);
  } else if (choice->is(json::Kind::kObject)) {
    decode_object(Fields(*choice, path, decoding), tools, out);
  } else {
    decoding.wrong_type(path, "a string or an object", choice->kind());
  }
  return out;
}

std::string describe_tools(const std::vector<ir::Tool>& tools) {
  std::string out;
  for (const ir::Tool& tool : tools) {
    if (tool.kind == ir::ToolKind::kHosted) continue;
    if (!out.empty()) out += '\n';
    json::Writer writer(out);
    writer.begin_object().member("name", ir::prompt_name(tool.tool_namespace, tool.name));
    if (!tool.description.empty()) writer.member("description", tool.description);
    const std::string_view schema = tool.kind == ir::ToolKind::kCustom ? kRawInputSchema : tool.parameters;
    if (!schema.empty()) writer.key("parameters").raw(schema);
    writer.end_object();
  }
  return out;
}

}  // namespace kvern::api
