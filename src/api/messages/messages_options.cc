#include "api/messages/messages_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/generation_fields.h"

namespace kvern::api {
namespace {

/// A tool of the client is "custom" or says nothing; every other type is one that Anthropic's servers know by name
/// ("web_search_20250305", "bash_20250124"). Those are carried and not offered to the model.
void decode_tool(const Fields& fields, CacheMarks& marks, std::vector<ir::Tool>& out) {
  Decoding& decoding = fields.decoding();
  ir::Tool tool;
  std::string type = "custom";
  fields.string("type", Limit::kToolNameBytes, type);
  if (type != "custom") {
    tool.kind = ir::ToolKind::kHosted;
    tool.name = type;
    fields.string("name", Limit::kToolNameBytes, tool.name);
  } else {
    if (fields.required("name") && fields.string("name", Limit::kToolNameBytes, tool.name) && !is_tool_name(tool.name))
      decoding.fail(fields.path("name"), "must be a name without spaces, quotes or angle brackets");
    fields.string("description", Limit::kToolDescriptionBytes, tool.description);
    if (!fields.required("input_schema")) return;
    const auto schema = fields.object("input_schema");
    if (schema && decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), fields.path("input_schema")))
      tool.parameters = schema->raw();
    fields.boolean("strict", tool.strict);
  }
  tool.cache = marks.read(fields);
  out.push_back(std::move(tool));
}

bool has_callable(const std::vector<ir::Tool>& tools) {
  return std::ranges::any_of(tools, [](const ir::Tool& tool) { return tool.kind != ir::ToolKind::kHosted; });
}

std::optional<ir::Reasoning::Effort> effort_of(std::string_view name) {
  using Effort = ir::Reasoning::Effort;
  for (const Effort effort : {Effort::kLow, Effort::kMedium, Effort::kHigh, Effort::kXhigh, Effort::kMax}) {
    if (name == to_string(effort)) return effort;
  }
  return std::nullopt;
}

/// "omitted": the client wants no text of it, only the signature that brings it back.
bool decode_display(const Fields& thinking) {
  std::string display;
  if (!thinking.string("display", display)) return false;
  if (display != "summarized" && display != "omitted") {
    thinking.decoding().fail(thinking.path("display"),
                             fmt::format("must be summarized or omitted, not {}", shown(display)));
  }
  return display == "omitted";
}

void decode_thinking(const Fields& fields, ir::Reasoning& out) {
  using Mode = ir::Reasoning::Mode;
  const auto object = fields.object("thinking");
  if (!object) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("thinking");
  const Fields thinking(*object, path, decoding);
  std::string type;
  if (!thinking.required("type") || !thinking.string("type", type)) return;
  constexpr std::int64_t kBudgetLeast = 1024;
  const auto most = static_cast<std::int64_t>(decoding.limits()[Limit::kMaxTokens]);
  std::uint32_t budget = 0;
  if (type == "disabled") {
    out.mode = Mode::kOff;
  } else if (type == "adaptive" || type == "between_tools") {
    out.mode = Mode::kAdaptive;
  } else if (type == "enabled") {
    out.mode = Mode::kOn;
    if (thinking.required("budget_tokens") && thinking.integer("budget_tokens", kBudgetLeast, most, budget))
      out.budget_tokens = budget;
  } else {
    return decoding.fail(thinking.path("type"),
                         fmt::format("must be enabled, disabled, adaptive or between_tools, not {}", shown(type)));
  }
  out.hidden = decode_display(thinking);
}

void decode_effort(const Fields& fields, ir::Reasoning& out) {
  const auto config = fields.object("output_config");
  if (!config) return;
  const Path path = fields.path("output_config");
  const Fields inner(*config, path, fields.decoding());
  std::string effort;
  if (!inner.string("effort", effort)) return;
  out.effort = effort_of(effort);
  if (!out.effort) {
    fields.decoding().fail(inner.path("effort"),
                           fmt::format("must be low, medium, high, xhigh or max, not {}", shown(effort)));
  }
}

/// `keep` of an edit that clears thinking: "all" keeps every thought, a number of turns leaves it to the template.
void decode_clear_thinking(const Fields& edit, ir::Reasoning& out) {
  const auto keep = edit.find("keep");
  if (!keep) return;
  if (keep->is(json::Kind::kObject)) {
    const Path path = edit.path("keep");
    const Fields inner(*keep, path, edit.decoding());
    std::string type;
    inner.string("type", type);
    if (type == "all") out.history = ir::Reasoning::History::kKeep;
  } else if (keep->is(json::Kind::kString)) {
    if (keep->string() == "all") out.history = ir::Reasoning::History::kKeep;
  } else {
    edit.decoding().wrong_type(edit.path("keep"), "a string or an object", keep->kind());
  }
}

void decode_context_management(const Fields& fields, ir::Reasoning& out) {
  const auto management = fields.object("context_management");
  if (!management) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("context_management");
  const Fields inner(*management, path, decoding);
  each_object(inner, "edits", Limit::kParts, [&](const Fields& edit) {
    std::string type;
    if (!edit.required("type") || !edit.string("type", type)) return;
    if (type.starts_with("clear_thinking")) decode_clear_thinking(edit, out);
  });
}

void decode_format(const Fields& fields, std::string_view name, ir::ResponseFormat& out) {
  const auto format = fields.object(name);
  if (!format) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path(name);
  const Fields inner(*format, path, decoding);
  std::string type;
  if (!inner.required("type") || !inner.string("type", type)) return;
  if (type != "json_schema")
    return decoding.fail(inner.path("type"), fmt::format("must be json_schema, not {}", shown(type)));
  if (!inner.required("schema")) return;
  const auto schema = inner.object("schema");
  if (!schema || !decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), inner.path("schema"))) return;
  out.kind = ir::ResponseFormat::Kind::kJsonSchema;
  out.schema = schema->raw();
  out.strict = true;
}

}  // namespace

std::vector<ir::Tool> decode_messages_tools(const Fields& fields, CacheMarks& marks) {
  std::vector<ir::Tool> out;
  each_object(fields, "tools", Limit::kTools, [&](const Fields& tool) { decode_tool(tool, marks, out); });
  return out;
}

ir::ToolChoice decode_messages_tool_choice(const Fields& fields, const std::vector<ir::Tool>& tools) {
  using Kind = ir::ToolChoice::Kind;
  ir::ToolChoice out;
  const auto choice = fields.object("tool_choice");
  if (!choice) return out;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("tool_choice");
  const Fields inner(*choice, path, decoding);
  std::string type;
  if (!inner.required("type") || !inner.string("type", type)) return out;
  bool one_at_most = false;
  inner.boolean("disable_parallel_tool_use", one_at_most);
  out.parallel = !one_at_most;
  if (type == "none") {
    out.kind = Kind::kNone;
  } else if (type == "any") {
    out.kind = Kind::kRequired;
    if (!has_callable(tools)) decoding.fail(path, "needs `tools`");
  } else if (type == "tool") {
    out.kind = Kind::kNamed;
    if (!inner.required("name") || !inner.string("name", Limit::kToolNameBytes, out.name)) return out;
    if (std::ranges::find(tools, out.name, &ir::Tool::name) == tools.end())
      decoding.fail(inner.path("name"), fmt::format("names no tool of `tools`: {}", shown(out.name)));
  } else if (type != "auto") {
    decoding.fail(inner.path("type"), fmt::format("must be auto, any, tool or none, not {}", shown(type)));
  }
  return out;
}

ir::Reasoning decode_messages_reasoning(const Fields& fields) {
  ir::Reasoning out;
  decode_thinking(fields, out);
  decode_effort(fields, out);
  decode_context_management(fields, out);
  return out;
}

ir::ResponseFormat decode_messages_format(const Fields& fields) {
  ir::ResponseFormat out;
  decode_format(fields, "output_format", out);
  if (const auto config = fields.object("output_config")) {
    const Path path = fields.path("output_config");
    decode_format(Fields(*config, path, fields.decoding()), "format", out);
  }
  return out;
}

void decode_messages_sampling(const Fields& fields, ir::Sampling& out) {
  fields.number("temperature", 0, 1, out.temperature);
  fields.number("top_p", 0, 1, out.top_p, /*open=*/true);
  fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), out.top_k);
  out.top_k = std::max(out.top_k, 0);  // -1 is another common spelling of "off"
}

void decode_messages_stopping(const Fields& fields, ir::Stopping& out) {
  Decoding& decoding = fields.decoding();
  std::uint32_t tokens = 0;
  if (fields.integer("max_tokens", 1, static_cast<std::int64_t>(decoding.limits()[Limit::kMaxTokens]), tokens))
    out.max_tokens = tokens;
  if (fields.array("stop_sequences")) decode_stop(fields, "stop_sequences", out.strings);
}

}  // namespace kvern::api
