#include "api/chat/chat_options.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "api/generation_fields.h"

namespace kvern::api {
namespace {

/// `logprobs` switches them on, `top_logprobs` says how many alternatives come with each.
void decode_logprobs(const Fields& fields, std::optional<std::uint32_t>& out) {
  Decoding& decoding = fields.decoding();
  bool wanted = false;
  fields.boolean("logprobs", wanted);
  std::uint32_t alternatives = 0;
  fields.integer("top_logprobs", 0, static_cast<std::int64_t>(decoding.limits()[Limit::kTopLogprobs]), alternatives);
  if (wanted) {
    out = alternatives;
  } else if (alternatives > 0) {
    decoding.fail(fields.path("top_logprobs"), "goes only with `logprobs`: true");
  }
}

void decode_schema(const Fields& format, ir::ResponseFormat& out) {
  const auto object = format.object("json_schema");
  if (!format.required("json_schema") || !object) return;
  const Path path = format.path("json_schema");
  const Fields fields(*object, path, format.decoding());
  if (fields.required("name")) fields.string("name", Limit::kNameBytes, out.name);
  fields.string("description", Limit::kToolDescriptionBytes, out.description);
  fields.boolean("strict", out.strict);
  const auto schema = fields.object("schema");
  if (schema && format.decoding().within(Limit::kToolSchemaBytes, schema->raw().size(), fields.path("schema")))
    out.schema = schema->raw();
}

void decode_response_format(const Fields& fields, ir::ResponseFormat& out) {
  const auto object = fields.object("response_format");
  if (!object) return;
  const Path path = fields.path("response_format");
  const Fields format(*object, path, fields.decoding());
  std::string type;
  if (!format.required("type") || !format.string("type", type) || type == "text") return;
  if (type == "json_object") {
    out.kind = ir::ResponseFormat::Kind::kJsonObject;
  } else if (type == "json_schema") {
    out.kind = ir::ResponseFormat::Kind::kJsonSchema;
    decode_schema(format, out);
  } else {
    fields.decoding().fail(format.path("type"),
                           fmt::format("must be text, json_object or json_schema, not {}", shown(type)));
  }
}

/// How many words to make: typed, then left alone, as no model here has a switch for it.
void check_verbosity(const Fields& fields) {
  std::string verbosity;
  if (!fields.string("verbosity", verbosity)) return;
  if (verbosity != "low" && verbosity != "medium" && verbosity != "high")
    fields.decoding().fail(fields.path("verbosity"),
                           fmt::format("must be low, medium or high, not {}", shown(verbosity)));
}

}  // namespace

void decode_chat_options(const Fields& fields, ir::Request& request) {
  decode_logprobs(fields, request.logprobs);
  decode_response_format(fields, request.response_format);
  decode_effort(fields, "reasoning_effort", request.reasoning);
  check_verbosity(fields);
}

}  // namespace kvern::api
