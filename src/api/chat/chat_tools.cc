#include "api/chat/chat_tools.h"

#include <fmt/format.h>

#include "api/generation_fields.h"

namespace kvern::api {
namespace {

void decode_tool(json::Value value, const Path& path, Decoding& decoding, std::vector<ir::Tool>& out) {
  if (!value.is(json::Kind::kObject)) return decoding.wrong_type(path, "an object", value.kind());
  const Fields fields(value, path, decoding);
  std::string type;
  if (!fields.required("type") || !fields.string("type", type)) return;
  if (type != "function") {
    return decoding.unsupported(fields.path("type"), fmt::format("only functions, no tools of type {}", shown(type)));
  }
  if (!fields.required("function")) return;
  const auto function = fields.object("function");
  if (!function) return;
  const Path inner_path = fields.path("function");
  const Fields inner(*function, inner_path, decoding);
  ir::Tool tool;
  if (inner.required("name") && inner.string("name", Limit::kToolNameBytes, tool.name) && !is_tool_name(tool.name))
    decoding.fail(inner.path("name"), "must be a name without spaces, quotes or angle brackets");
  inner.string("description", Limit::kToolDescriptionBytes, tool.description);
  if (const auto schema = inner.object("parameters")) {
    if (decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), inner.path("parameters")))
      tool.parameters = schema->raw();
  }
  inner.boolean("strict", tool.strict);
  out.push_back(std::move(tool));
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
  const auto choice = fields.find("tool_choice");
  if (!choice) return out;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("tool_choice");
  constexpr std::string_view kUnserved = "only none and auto; the model cannot be forced to call a tool";
  if (choice->is(json::Kind::kString)) {
    const std::string name = choice->string();
    if (name == "none") {
      out.kind = ir::ToolChoice::Kind::kNone;
    } else if (name == "required") {
      out.kind = ir::ToolChoice::Kind::kRequired;
      if (tools.empty()) {
        decoding.fail(path, "needs `tools`");
      } else {
        decoding.unsupported(path, kUnserved);
      }
    } else if (name != "auto") {
      decoding.fail(path, fmt::format("must be none, auto, required or an object, not {}", shown(name)));
    }
    return out;
  }
  if (!choice->is(json::Kind::kObject)) {
    decoding.wrong_type(path, "a string or an object", choice->kind());
    return out;
  }
  const Fields inner(*choice, path, decoding);
  std::string type;
  if (!inner.required("type") || !inner.string("type", type)) return out;
  if (type != "function" && type != "custom" && type != "allowed_tools") {
    decoding.fail(inner.path("type"), fmt::format("must be function, custom or allowed_tools, not {}", shown(type)));
  } else {
    decoding.unsupported(path, kUnserved);
  }
  return out;
}

}  // namespace kvern::api
