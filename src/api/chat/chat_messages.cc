#include "api/chat/chat_messages.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/media_parts.h"

namespace kvern::api {
namespace {

std::optional<ir::Role> role_of(std::string_view name) {
  if (name == "system") return ir::Role::kSystem;
  if (name == "developer") return ir::Role::kDeveloper;
  if (name == "user") return ir::Role::kUser;
  if (name == "assistant") return ir::Role::kAssistant;
  if (name == "tool") return ir::Role::kTool;
  return std::nullopt;
}

/// `image_url` is an object with a `url`, or the URL itself as some clients have it.
std::optional<ir::Part> image_part(const Fields& part) {
  if (!part.required("image_url")) return std::nullopt;
  if (part.find("image_url")->is(json::Kind::kString)) return image_of(part, "image_url");
  const auto object = part.object("image_url");
  if (!object) return std::nullopt;
  const Path path = part.path("image_url");
  return image_of(Fields(*object, path, part.decoding()), "url");
}

std::optional<ir::Part> file_part(const Fields& part) {
  const auto object = part.object("file");
  if (!part.required("file") || !object) return std::nullopt;
  const Path path = part.path("file");
  return file_of(Fields(*object, path, part.decoding()));
}

void decode_part(json::Value value, const Path& path, Decoding& decoding, std::vector<ir::Part>& out) {
  if (!value.is(json::Kind::kObject)) return decoding.wrong_type(path, "an object", value.kind());
  const Fields part(value, path, decoding);
  std::string type;
  if (!part.required("type") || !part.string("type", type)) return;
  if (type == "image_url" || type == "file") {
    if (auto media = type == "file" ? file_part(part) : image_part(part)) out.push_back(*std::move(media));
    return;
  }
  const bool refusal = type == "refusal";
  if (!refusal && type != "text") {
    for (const std::string_view known : {"input_audio", "video_url", "audio_url", "image"}) {
      if (type == known) return decoding.unsupported(part.path("type"), fmt::format("no parts of type {}", known));
    }
    return decoding.fail(part.path("type"), fmt::format("must be text, image_url or file, not {}", shown(type)));
  }
  const std::string_view name = refusal ? "refusal" : "text";
  ir::Text text;
  if (part.required(name) && part.string(name, text.text)) out.emplace_back(std::move(text));
}

/// null, a string, or an array of parts, which stay apart.
std::vector<ir::Part> decode_content(const Fields& message) {
  std::vector<ir::Part> out;
  const auto content = message.find("content");
  if (!content) return out;
  Decoding& decoding = message.decoding();
  const Path path = message.path("content");
  if (content->is(json::Kind::kString)) {
    out.emplace_back(ir::Text{content->string()});
  } else if (content->is(json::Kind::kArray)) {
    if (!decoding.within(Limit::kParts, content->size(), path)) return out;
    std::size_t index = 0;
    for (const auto& child : content->children()) {
      if (decoding.failed()) break;
      decode_part(child.value, element_of(path, index++), decoding, out);
    }
  } else {
    decoding.wrong_type(path, "a string or an array of parts", content->kind());
  }
  return out;
}

void add_content(const Fields& message, ir::Message& out) {
  for (ir::Part& part : decode_content(message))
    std::visit([&](auto& content) { out.blocks.push_back({std::move(content), std::nullopt}); }, part);
}

/// Clients give reasoning back under the name they read it from; `reasoning_details` is a list of texts.
std::string decode_reasoning(const Fields& message) {
  std::string text;
  Decoding& decoding = message.decoding();
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    if (message.string(name, text) && !text.empty()) return text;
  }
  const auto details = message.array("reasoning_details");
  if (!details) return text;
  const Path path = message.path("reasoning_details");
  std::size_t index = 0;
  for (const auto& child : details->children()) {
    const Path place = element_of(path, index++);
    if (!child.value.is(json::Kind::kObject)) {
      decoding.wrong_type(place, "an object", child.value.kind());
      break;
    }
    std::string piece;
    if (Fields(child.value, place, decoding).string("text", piece)) text += piece;
  }
  return text;
}

void decode_call(json::Value call, const Path& path, Decoding& decoding, std::vector<ir::Block>& out) {
  if (!call.is(json::Kind::kObject)) return decoding.wrong_type(path, "an object", call.kind());
  const Fields fields(call, path, decoding);
  std::string type = "function";
  fields.string("type", type);
  const bool custom = type == "custom";
  if (!custom && type != "function")
    return decoding.fail(fields.path("type"), fmt::format("must be function or custom, not {}", shown(type)));
  ir::ToolCall out_call;
  if (custom) out_call.kind = ir::ToolKind::kCustom;
  if (fields.required("id")) fields.string("id", Limit::kIdBytes, out_call.id);
  if (!fields.required(type)) return;
  const auto object = fields.object(type);
  if (!object) return;
  const Path inner_path = fields.path(type);
  const Fields inner(*object, inner_path, decoding);
  if (inner.required("name")) inner.string("name", Limit::kToolNameBytes, out_call.name);
  const std::string_view arguments = custom ? "input" : "arguments";
  if (inner.required(arguments)) inner.string(arguments, out_call.arguments);
  out.push_back({std::move(out_call), std::nullopt});
}

void decode_assistant(const Fields& fields, ir::Message& out) {
  Decoding& decoding = fields.decoding();
  if (std::string reasoning = decode_reasoning(fields); !reasoning.empty())
    out.blocks.push_back({ir::Thinking{std::move(reasoning), {}, {}}, std::nullopt});
  add_content(fields, out);
  std::string refusal;
  if (fields.string("refusal", refusal) && !refusal.empty())
    out.blocks.push_back({ir::Text{std::move(refusal)}, std::nullopt});
  if (fields.has("function_call")) decoding.unsupported(fields.path("function_call"), "use `tool_calls`");
  const auto calls = fields.array("tool_calls");
  if (!calls) return;
  const Path path = fields.path("tool_calls");
  if (!decoding.within(Limit::kToolCalls, calls->size(), path)) return;
  std::size_t index = 0;
  for (const auto& child : calls->children()) decode_call(child.value, element_of(path, index++), decoding, out.blocks);
}

ir::Message decode_message(json::Value value, const Path& path, Decoding& decoding) {
  ir::Message out;
  if (!value.is(json::Kind::kObject)) {
    decoding.wrong_type(path, "an object", value.kind());
    return out;
  }
  const Fields fields(value, path, decoding);
  std::string name;
  if (!fields.required("role") || !fields.string("role", name)) return out;
  const auto role = role_of(name);
  if (!role) {
    if (name == "function") {
      decoding.unsupported(fields.path("role"), "use the role `tool`");
    } else {
      decoding.fail(fields.path("role"),
                    fmt::format("must be system, developer, user, assistant or tool, not {}", shown(name)));
    }
    return out;
  }
  out.role = *role;
  fields.string("name", Limit::kNameBytes, out.name);
  if (*role == ir::Role::kAssistant) {
    decode_assistant(fields, out);
    return out;
  }
  if (!value.find("content")) {
    decoding.fail(fields.path("content"), "is missing");
  } else if (*role == ir::Role::kTool) {
    ir::ToolResult result;
    if (fields.required("tool_call_id")) fields.string("tool_call_id", Limit::kIdBytes, result.call_id);
    result.name = out.name;
    result.parts = decode_content(fields);
    out.blocks.push_back({std::move(result), std::nullopt});
  } else {
    add_content(fields, out);
  }
  return out;
}

}  // namespace

std::vector<ir::Message> decode_chat_messages(const Fields& fields) {
  std::vector<ir::Message> out;
  Decoding& decoding = fields.decoding();
  if (!fields.required("messages")) return out;
  const auto messages = fields.array("messages");
  if (!messages) return out;
  const Path path = fields.path("messages");
  const std::uint32_t count = messages->size();
  if (count == 0) decoding.fail(path, "must hold at least one message");
  if (!decoding.within(Limit::kMessages, count, path)) return out;
  out.reserve(count);
  std::size_t index = 0;
  for (const auto& child : messages->children()) {
    if (decoding.failed()) break;
    out.push_back(decode_message(child.value, element_of(path, index++), decoding));
  }
  return out;
}

}  // namespace kvern::api
