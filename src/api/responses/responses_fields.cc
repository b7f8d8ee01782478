#include "api/responses/responses_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "api/responses/response_ids.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// One of `words`, or a fault; empty where the field is absent.
std::string word(const Fields& fields, std::string_view name, std::initializer_list<std::string_view> words) {
  std::string out;
  if (!fields.string(name, out) || std::ranges::find(words, out) != words.end()) return out;
  std::string list;
  for (const std::string_view one : words) list.append(list.empty() ? "" : ", ").append(one);
  fields.decoding().fail(fields.path(name), fmt::format("must be one of {}, not {}", list, shown(out)));
  return {};
}

void decode_reasoning(const Fields& fields, ir::Reasoning& out) {
  using Effort = ir::Reasoning::Effort;
  constexpr std::array kEfforts{std::pair{"minimal", Effort::kMinimal}, std::pair{"low", Effort::kLow},
                                std::pair{"medium", Effort::kMedium},   std::pair{"high", Effort::kHigh},
                                std::pair{"xhigh", Effort::kXhigh},     std::pair{"max", Effort::kMax}};
  const auto reasoning = fields.object("reasoning");
  if (!reasoning) return;
  const Path path = fields.path("reasoning");
  const Fields inner(*reasoning, path, fields.decoding());
  const std::string effort = word(inner, "effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (effort == "none") out.mode = ir::Reasoning::Mode::kOff;
  for (const auto& [name, value] : kEfforts) {
    if (effort != name) continue;
    out.mode = ir::Reasoning::Mode::kOn;
    out.effort = value;
  }
  word(inner, "summary", {"auto", "concise", "detailed"});
  word(inner, "generate_summary", {"auto", "concise", "detailed"});
}

void decode_text(const Fields& fields, ir::ResponseFormat& out) {
  const auto text = fields.object("text");
  if (!text) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("text");
  const Fields inner(*text, path, decoding);
  word(inner, "verbosity", {"low", "medium", "high"});
  const auto object = inner.object("format");
  if (!object) return;
  const Path format_path = inner.path("format");
  const Fields format(*object, format_path, decoding);
  if (!format.required("type")) return;
  const std::string type = word(format, "type", {"text", "json_object", "json_schema"});
  if (type == "json_object") out.kind = ir::ResponseFormat::Kind::kJsonObject;
  if (type != "json_schema") return;
  out.kind = ir::ResponseFormat::Kind::kJsonSchema;
  if (format.required("name")) format.string("name", Limit::kNameBytes, out.name);
  format.string("description", Limit::kToolDescriptionBytes, out.description);
  format.boolean("strict", out.strict);
  const auto schema = format.object("schema");
  if (format.required("schema") && schema &&
      decoding.within(Limit::kToolSchemaBytes, schema->raw().size(), format.path("schema"))) {
    out.schema = schema->raw();
  }
}

/// Encrypted reasoning is always there; what hosted tools would add is nowhere.
bool includes_logprobs(const Fields& fields) {
  const auto include = fields.array("include");
  if (!include) return false;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("include");
  if (!decoding.within(Limit::kParts, include->size(), path)) return false;
  bool out = false;
  std::size_t index = 0;
  for (const auto& child : include->children()) {
    const Path place = element_of(path, index++);
    if (!child.value.is(json::Kind::kString)) {
      decoding.wrong_type(place, "a string", child.value.kind());
      return false;
    }
    out = out || child.value.string() == "message.output_text.logprobs";
  }
  return out;
}

/// `{"format": ..., "verbosity"?: ...}`, a schema's format with all of its keys.
std::string text_echo(const Fields& fields) {
  std::string out = R"({"format":)";
  const auto text = fields.object("text");
  const auto format = text ? text->find("format") : std::nullopt;
  if (!format || !format->is(json::Kind::kObject)) {
    out += R"({"type":"text"})";
  } else {
    out += format->raw();
    if (format->find("schema")) {
      out.pop_back();
      if (!format->find("description")) out += R"(,"description":null)";
      if (!format->find("strict")) out += R"(,"strict":false)";
      out += '}';
    }
  }
  const auto verbosity = text ? text->find("verbosity") : std::nullopt;
  if (verbosity && verbosity->is(json::Kind::kString)) out.append(R"(,"verbosity":)").append(verbosity->raw());
  return out + "}";
}

std::string reasoning_echo(const Fields& fields) {
  const auto reasoning = fields.object("reasoning");
  if (!reasoning) return "null";
  const auto member = [&](std::string_view name) {
    const auto value = reasoning->find(name);
    return value ? value->raw() : std::string_view("null");
  };
  const std::string_view summary = member("summary");
  return fmt::format(R"({{"effort":{},"summary":{}}})", member("effort"),
                     summary == "null" ? member("generate_summary") : summary);
}

}  // namespace

void decode_responses_options(const Fields& fields, ir::Request& request) {
  const Limits& limits = fields.decoding().limits();
  decode_reasoning(fields, request.reasoning);
  decode_text(fields, request.response_format);
  std::uint32_t alternatives = 0;
  const bool counted =
      fields.integer("top_logprobs", 0, static_cast<std::int64_t>(limits[Limit::kTopLogprobs]), alternatives);
  if (includes_logprobs(fields) || (counted && alternatives > 0)) request.logprobs = alternatives;
  std::uint32_t tokens = 0;
  if (fields.integer("max_output_tokens", 1, static_cast<std::int64_t>(limits[Limit::kMaxTokens]), tokens)) {
    request.stopping.max_tokens = tokens;
    if (request.stopping.min_tokens > tokens) {
      fields.decoding().fail(fields.path("min_tokens"), fmt::format("({}) is more than the most tokens asked for ({})",
                                                                    request.stopping.min_tokens, tokens));
    }
  }
  // Typed and then of no effect: kvern runs no tool by itself, cuts no input, renders no metadata.
  std::int64_t calls = 0;
  fields.integer("max_tool_calls", 1, std::numeric_limits<std::int32_t>::max(), calls);
  word(fields, "truncation", {"auto", "disabled"});
  fields.object("client_metadata");
}

ResponsesState decode_responses_state(const Fields& fields, bool stores) {
  ResponsesState state;
  fields.boolean("store", state.store);
  fields.boolean("background", state.background);
  if (state.background && !stores) {
    fields.decoding().unsupported(fields.path("background"), "no responses are stored here");
  } else if (state.background && !state.store) {
    fields.decoding().fail(fields.path("background"), "needs `store`: what goes on without a client must be kept");
  }
  state.store = state.store && stores;
  std::string id;
  if (fields.string("previous_response_id", Limit::kIdBytes, id)) {
    state.previous = parse_response_name(id);
    if (!state.previous) previous_not_found(fields);
  }
  return state;
}

void previous_not_found(const Fields& fields) {
  fields.decoding().fail(fields.path("previous_response_id"),
                         "is not found: it was not stored, or it or a response it continues was deleted or has "
                         "expired. Send the conversation as `input`",
                         "previous_response_not_found");
}

std::string echo_of(const Fields& fields, const ResponsesState& state, std::string_view tools,
                    std::string_view tool_choice) {
  std::string out;
  const auto raw = [&](std::string_view name, std::string_view json) {
    out.append("\"").append(name).append("\":").append(json).append(",");
  };
  const auto as_sent = [&](std::string_view name, std::string_view otherwise) {
    const auto value = fields.find(name);
    raw(name, value ? value->raw() : otherwise);
  };
  as_sent("instructions", "null");
  raw("previous_response_id", state.previous ? "\"" + response_name(*state.previous) + "\"" : "null");
  raw("tools", tools);
  raw("tool_choice", tool_choice);
  as_sent("parallel_tool_calls", "true");
  raw("truncation", "\"disabled\"");
  raw("text", text_echo(fields));
  raw("reasoning", reasoning_echo(fields));
  as_sent("temperature", "1");
  as_sent("top_p", "1");
  as_sent("presence_penalty", "0");
  as_sent("frequency_penalty", "0");
  as_sent("top_logprobs", "0");
  as_sent("max_output_tokens", "null");
  as_sent("max_tool_calls", "null");
  raw("store", state.store ? "true" : "false");
  raw("background", state.background ? "true" : "false");
  raw("service_tier", "\"default\"");
  as_sent("metadata", "{}");
  as_sent("safety_identifier", "null");
  as_sent("prompt_cache_key", "null");
  out.shrink_to_fit();  // it is kept as long as the answer takes
  return out;
}

}  // namespace kvern::api
