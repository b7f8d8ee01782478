#include "api/chat/chat_options.h"

#include <fmt/format.h>

namespace kvern::api {
namespace {

void decode_effort(const Fields& fields, ir::Reasoning& out) {
  using Effort = ir::Reasoning::Effort;
  std::string name;
  if (!fields.string("reasoning_effort", name)) return;
  if (name == "none") {
    out.mode = ir::Reasoning::Mode::kOff;
    return;
  }
  for (const Effort effort :
       {Effort::kMinimal, Effort::kLow, Effort::kMedium, Effort::kHigh, Effort::kXhigh, Effort::kMax}) {
    if (name != to_string(effort)) continue;
    out.effort = effort;
    out.mode = ir::Reasoning::Mode::kOn;
  }
  if (!out.effort) {
    fields.decoding().fail(fields.path("reasoning_effort"),
                           fmt::format("must be none, minimal, low, medium, high, xhigh or max, not {}", shown(name)));
  }
}

/// {"type": "enabled" | "disabled" | "adaptive", "clear_thinking"?: false keeps that of earlier turns}.
void decode_thinking(const Fields& fields, ir::Reasoning& out) {
  const auto object = fields.object("thinking");
  if (!object) return;
  const Path path = fields.path("thinking");
  const Fields thinking(*object, path, fields.decoding());
  bool clear = true;
  if (thinking.boolean("clear_thinking", clear))
    out.history = clear ? ir::Reasoning::History::kDrop : ir::Reasoning::History::kKeep;
  std::string type;
  if (!thinking.required("type") || !thinking.string("type", type)) return;
  if (type == "enabled") {
    out.mode = ir::Reasoning::Mode::kOn;
  } else if (type == "disabled") {
    out.mode = ir::Reasoning::Mode::kOff;
  } else if (type == "adaptive") {
    out.mode = ir::Reasoning::Mode::kAdaptive;
  } else {
    fields.decoding().fail(thinking.path("type"),
                           fmt::format("must be enabled, disabled or adaptive, not {}", shown(type)));
  }
}

}  // namespace

ir::Reasoning decode_chat_reasoning(const Fields& fields) {
  ir::Reasoning out;
  decode_effort(fields, out);
  decode_thinking(fields, out);
  bool enabled = false;
  if (fields.boolean("enable_thinking", enabled))
    out.mode = enabled ? ir::Reasoning::Mode::kOn : ir::Reasoning::Mode::kOff;
  return out;
}

ir::ResponseFormat decode_chat_format(const Fields& fields) {
  using Kind = ir::ResponseFormat::Kind;
  ir::ResponseFormat out;
  Decoding& decoding = fields.decoding();
  const auto format = fields.object("response_format");
  if (!format) return out;
  const Path path = fields.path("response_format");
  const Fields outer(*format, path, decoding);
  std::string type;
  if (!outer.required("type") || !outer.string("type", type) || type == "text") return out;
  if (type == "json_object") {
    out.kind = Kind::kJsonObject;
    return out;
  }
  if (type != "json_schema") {
    decoding.fail(outer.path("type"), fmt::format("must be text, json_object or json_schema, not {}", shown(type)));
    return out;
  }
  const auto object = outer.object("json_schema");
  if (!outer.required("json_schema") || !object) return out;
  const Path inner_path = outer.path("json_schema");
  const Fields inner(*object, inner_path, decoding);
  out.kind = Kind::kJsonSchema;
  if (inner.required("name")) inner.string("name", Limit::kNameBytes, out.name);
  inner.string("description", Limit::kToolDescriptionBytes, out.description);
  inner.boolean("strict", out.strict);
  const auto schema = inner.object("schema");
  if (schema && decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), inner.path("schema")))
    out.schema = schema->raw();
  return out;
}

}  // namespace kvern::api
