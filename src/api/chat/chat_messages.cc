#include "api/chat/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

struct PartType {
  std::string_view name;
  std::optional<ir::Part> (*decode)(const Fields& part);
};

std::optional<ir::Part> text_of(const Fields& part, std::string_view name) {
  ir::Text text;
  if (!part.required(name) || !part.string(name, text.text)) return std::nullopt;
  return text;
}
std::optional<ir::Part> text_part(const Fields& part) { return text_of(part, "text"); }
std::optional<ir::Part> refusal_part(const Fields& part) { return text_of(part, "refusal"); }

std::optional<ir::Part> image_part(const Fields& part) {
  const auto object = part.object("image_url");
  if (!part.required("image_url") || !object) return std::nullopt;
  const Path path = part.path("image_url");
  const Fields inner(*object, path, part.decoding());
  auto image = decode_image_url(inner, "url");
  if (!image) return std::nullopt;
  inner.string("detail", Limit::kNameBytes, image->detail);
  return *std::move(image);
}

std::optional<ir::Part> file_part(const Fields& part) {
  const auto object = part.object("file");
  if (!part.required("file") || !object) return std::nullopt;
  const Path path = part.path("file");
  auto file = decode_file(Fields(*object, path, part.decoding()));
  if (!file) return std::nullopt;
  return *std::move(file);
}

constexpr std::array kPartTypes{PartType{"text", text_part}, PartType{"refusal", refusal_part},
                                PartType{"image_url", image_part}, PartType{"file", file_part}};

void decode_part(const Fields& part, CacheMarks& marks, std::vector<MarkedPart>& out) {
  Decoding& decoding = part.decoding();
  std::string name;
  if (!part.required("type") || !part.string("type", name)) return;
  const auto type = std::ranges::find(kPartTypes, name, &PartType::name);
  if (type == kPartTypes.end()) {
    for (const std::string_view known : {"input_audio", "video_url", "audio_url", "image"}) {
      if (name == known) return decoding.unsupported(part.path("type"), fmt::format("no parts of type {}", known));
    }
    return decoding.fail(part.path("type"), fmt::format("must be text, image_url or file, not {}", shown(name)));
  }
  if (auto decoded = type->decode(part)) out.push_back({*std::move(decoded), marks.read(part)});
}

/// null, a string, or an array of parts, which stay apart. A mark on the message stands for one on its last part.
std::vector<MarkedPart> decode_content(const Fields& message, CacheMarks& marks) {
  std::vector<MarkedPart> out;
  const auto content = message.find("content");
  if (!content) return out;
  Decoding& decoding = message.decoding();
  const Path path = message.path("content");
  if (content->is(json::Kind::kString)) {
    out.push_back({ir::Text{content->string()}, std::nullopt});
  } else if (content->is(json::Kind::kArray)) {
    each_object(*content, Limit::kParts, path, decoding, [&](const Fields& part) { decode_part(part, marks, out); });
  } else {
    decoding.wrong_type(path, "a string or an array of parts", content->kind());
  }
  const auto mark = marks.read(message);
  if (mark && !out.empty()) out.back().cache = mark;
  return out;
}

/// Clients give reasoning back under the name they read it from; `reasoning_details` is a list of texts.
std::string decode_reasoning(const Fields& message) {
  std::string text;
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    if (message.string(name, text) && !text.empty()) return text;
  }
  each_object(message, "reasoning_details", Limit::kParts, [&](const Fields& detail) {
    std::string piece;
    if (detail.string("text", piece)) text += piece;
  });
  return text;
}

void decode_call(const Fields& fields, std::vector<ir::Block>& out) {
  Decoding& decoding = fields.decoding();
  std::string type = "function";
  fields.string("type", type);
  const bool custom = type == "custom";
  if (!custom && type != "function")
    return decoding.fail(fields.path("type"), fmt::format("must be function or custom, not {}", shown(type)));
  ir::ToolCall out_call;
  if (custom) out_call.kind = ir::ToolKind::kCustom;
  if (fields.required("id")) fields.string("id", Limit::kIdBytes, out_call.id);
  if (!fields.required(type)) return;
  const auto called = fields.object(type);
  if (!called) return;
  const Path inner_path = fields.path(type);
  const Fields inner(*called, inner_path, decoding);
  if (inner.required("name")) inner.string("name", Limit::kToolNameBytes, out_call.name);
  const std::string_view text = custom ? "input" : "arguments";
  if (inner.required(text)) inner.string(text, out_call.arguments);
  out.push_back({std::move(out_call), std::nullopt});
}

void decode_assistant(const Fields& fields, CacheMarks& marks, ir::Message& out) {
  Decoding& decoding = fields.decoding();
  if (std::string reasoning = decode_reasoning(fields); !reasoning.empty())
    out.blocks.push_back({ir::Thinking{std::move(reasoning), {}, {}}, std::nullopt});
  add_blocks(decode_content(fields, marks), out.blocks);
  std::string refusal;
  if (fields.string("refusal", refusal) && !refusal.empty())
    out.blocks.push_back({ir::Text{std::move(refusal)}, std::nullopt});
  if (fields.has("function_call")) decoding.unsupported(fields.path("function_call"), "use `tool_calls`");
  each_object(fields, "tool_calls", Limit::kToolCalls, [&](const Fields& call) { decode_call(call, out.blocks); });
}

ir::Message decode_message(const Fields& fields, CacheMarks& marks) {
  ir::Message out;
  Decoding& decoding = fields.decoding();
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
    decode_assistant(fields, marks, out);
    return out;
  }
  if (!fields.is_said("content")) {
    decoding.fail(fields.path("content"), "is missing");
  } else if (*role == ir::Role::kTool) {
    ir::ToolResult result;
    if (fields.required("tool_call_id")) fields.string("tool_call_id", Limit::kIdBytes, result.call_id);
    result.name = out.name;
    std::optional<ir::CacheMark> mark;
    for (MarkedPart& piece : decode_content(fields, marks)) {
      result.parts.push_back(std::move(piece.part));
      if (piece.cache) mark = piece.cache;
    }
    out.blocks.push_back({std::move(result), mark});
  } else {
    add_blocks(decode_content(fields, marks), out.blocks);
  }
  return out;
}

}  // namespace

std::vector<ir::Message> decode_chat_messages(const Fields& fields, CacheMarks& marks) {
  std::vector<ir::Message> out;
  Decoding& decoding = fields.decoding();
  if (!fields.required("messages")) return out;
  const auto messages = fields.array("messages");
  if (!messages) return out;
  const Path path = fields.path("messages");
  if (messages->size() == 0) decoding.fail(path, "must hold at least one message");
  each_object(*messages, Limit::kMessages, path, decoding,
              [&](const Fields& message) { out.push_back(decode_message(message, marks)); });
  return out;
}

}  // namespace kvern::api
