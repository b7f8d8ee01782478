#include "api/messages/messages_content.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/messages/messages_ids.h"
#include "api/messages/messages_media.h"

namespace kvern::api {
namespace {

constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

/// Why a block may not stand where it does.
enum class Place : std::uint8_t { kSystem, kUser, kAssistant };

struct Scope {
  Place place;
  CacheMarks& marks;
  std::string& preamble;
};

std::string text_of(const Fields& block, const Scope& scope) {
  std::string text;
  if (!block.required("text") || !block.string("text", text)) return {};
  return scope.place == Place::kSystem ? strip_billing_lines(text, scope.preamble) : text;
}

ir::Thinking thinking_of(const Fields& block) {
  ir::Thinking out;
  if (block.required("thinking")) block.string("thinking", out.text);
  // Absent from clients that drop it, and another server's after a switch: carried, never a reason to refuse.
  block.string("signature", out.signature);
  if (!out.text.empty()) return out;
  if (auto hidden = hidden_thinking(out.signature)) out.text = std::move(*hidden);
  return out;
}

/// The exact text of `input`. What the model wrote and was no JSON object came to the client under a name of its own
/// (see messages_whole.cc), and is itself again.
std::string arguments_of(json::Value input) {
  if (input.size() == 1) {
    const auto [key, value] = *input.children().begin();
    if (key == kInvalidJsonKey && value.is(json::Kind::kString)) return value.string();
  }
  return std::string(input.raw());
}

ir::ToolCall call_of(const Fields& block, ir::ToolKind kind) {
  ir::ToolCall out;
  out.kind = kind;
  std::string id;
  if (block.required("id") && block.string("id", Limit::kIdBytes, id)) out.id = call_id_of(id);
  if (block.required("name")) block.string("name", Limit::kToolNameBytes, out.name);
  if (!block.required("input")) return out;
  if (const auto input = block.object("input")) out.arguments = arguments_of(*input);
  return out;
}

/// A part of a tool's result. Marks on it count for the whole result.
void decode_result_part(const Fields& part, CacheMarks& marks, ir::ToolResult& out,
                        std::optional<ir::CacheMark>& mark) {
  std::string type;
  if (!part.required("type") || !part.string("type", type)) return;
  ir::Text text;
  if (type == "text") {
    if (part.required("text") && part.string("text", text.text)) out.parts.emplace_back(std::move(text));
  } else if (type == "tool_reference") {
    // What a search for tools found: the model reads the names.
    if (part.required("tool_name") && part.string("tool_name", Limit::kToolNameBytes, text.text))
      out.parts.emplace_back(std::move(text));
  } else if (type == "image") {
    if (auto image = decode_image(part)) out.parts.emplace_back(std::move(*image));
  } else if (type == "document") {
    if (auto document = decode_document(part)) out.parts.emplace_back(std::move(*document));
  } else if (type == "search_result") {
    if (auto document = decode_search_result(part)) out.parts.emplace_back(std::move(*document));
  } else {
    return part.decoding().fail(
        part.path("type"),
        fmt::format("must be text, image, document, search_result or tool_reference, not {}", shown(type)));
  }
  if (const auto own = marks.read(part)) mark = own;
}

ir::ToolResult result_of(const Fields& block, CacheMarks& marks, std::optional<ir::CacheMark>& mark) {
  ir::ToolResult out;
  Decoding& decoding = block.decoding();
  std::string id;
  if (block.required("tool_use_id") && block.string("tool_use_id", Limit::kIdBytes, id)) out.call_id = call_id_of(id);
  block.boolean("is_error", out.is_error);
  const auto content = block.find("content");
  if (!content) return out;  // a tool that says nothing
  const Path path = block.path("content");
  if (content->is(json::Kind::kString)) {
    out.parts.emplace_back(ir::Text{content->string()});
  } else if (content->is(json::Kind::kArray)) {
    each_object(*content, Limit::kParts, path, decoding,
                [&](const Fields& part) { decode_result_part(part, marks, out, mark); });
  } else {
    decoding.wrong_type(path, "a string or an array of parts", content->kind());
  }
  return out;
}

/// A result of a tool that another server ran: kept as it was told, as JSON text.
ir::ToolResult hosted_result_of(const Fields& block) {
  ir::ToolResult out;
  out.kind = ir::ToolKind::kHosted;
  std::string id;
  if (block.required("tool_use_id") && block.string("tool_use_id", Limit::kIdBytes, id)) out.call_id = call_id_of(id);
  if (const auto content = block.find("content")) out.parts.emplace_back(ir::Text{std::string(content->raw())});
  return out;
}

/// The content of a block of this type, or nullopt for a type that is unknown or stands in the wrong place.
std::optional<ir::Content> content_of(std::string_view type, const Fields& block, const Scope& scope,
                                      std::optional<ir::CacheMark>& mark) {
  if (type == "text") return ir::Text{text_of(block, scope)};
  if (scope.place == Place::kSystem) return std::nullopt;
  if (scope.place == Place::kAssistant) {
    if (type == "thinking") return thinking_of(block);
    if (type == "redacted_thinking") {
      ir::RedactedThinking out;
      if (block.required("data")) block.string("data", out.data);
      return out;
    }
    if (type == "tool_use") return call_of(block, ir::ToolKind::kFunction);
    if (type == "server_tool_use" || type == "mcp_tool_use") return call_of(block, ir::ToolKind::kHosted);
    if (type != "tool_result" && type.ends_with("_tool_result")) return hosted_result_of(block);
    return std::nullopt;
  }
  if (type == "tool_result") return result_of(block, scope.marks, mark);
  if (type == "image") return decode_image(block).value_or(ir::Image{});
  if (type == "document") return decode_document(block).value_or(ir::Document{});
  if (type == "search_result") return decode_search_result(block).value_or(ir::Document{});
  return std::nullopt;
}

constexpr std::string_view kTypes[] = {"text", "text, tool_result, image, document or search_result",
                                       "text, thinking, redacted_thinking or tool_use"};

void decode_block(const Fields& block, const Scope& scope, ir::Message& out) {
  std::string type;
  if (!block.required("type") || !block.string("type", type)) return;
  const std::size_t preamble = scope.preamble.size();
  std::optional<ir::CacheMark> mark;
  auto content = content_of(type, block, scope, mark);
  if (!content) {
    return block.decoding().fail(
        block.path("type"),
        fmt::format("must be {} here, not {}", kTypes[static_cast<std::size_t>(scope.place)], shown(type)));
  }
  if (const auto own = scope.marks.read(block)) mark = own;
  // A block that was nothing but a billing line is gone with it.
  const auto* text = std::get_if<ir::Text>(&*content);
  if (text != nullptr && text->text.empty() && scope.preamble.size() > preamble) return;
  out.blocks.push_back({std::move(*content), mark});
}

/// A string, or an array of blocks.
void decode_content(json::Value content, const Path& path, Decoding& decoding, const Scope& scope, ir::Message& out) {
  if (content.is(json::Kind::kString)) {
    std::string text = content.string();
    const std::size_t preamble = scope.preamble.size();
    if (scope.place == Place::kSystem) text = strip_billing_lines(text, scope.preamble);
    if (text.empty() && scope.preamble.size() > preamble) return;
    out.blocks.push_back({ir::Text{std::move(text)}, std::nullopt});
    return;
  }
  if (!content.is(json::Kind::kArray))
    return decoding.wrong_type(path, "a string or an array of blocks", content.kind());
  each_object(content, Limit::kParts, path, decoding, [&](const Fields& block) { decode_block(block, scope, out); });
}

std::optional<std::pair<ir::Role, Place>> role_of(std::string_view name) {
  if (name == "user") return std::pair{ir::Role::kUser, Place::kUser};
  if (name == "assistant") return std::pair{ir::Role::kAssistant, Place::kAssistant};
  if (name == "system") return std::pair{ir::Role::kSystem, Place::kSystem};
  return std::nullopt;
}

void decode_message(const Fields& fields, CacheMarks& marks, std::string& preamble, std::vector<ir::Message>& out) {
  Decoding& decoding = fields.decoding();
  std::string name;
  if (!fields.required("role") || !fields.string("role", name)) return;
  const auto role = role_of(name);
  if (!role) {
    return decoding.fail(fields.path("role"), fmt::format("must be user, assistant or system, not {}", shown(name)));
  }
  if (!fields.required("content")) return;
  ir::Message message{role->first, {}, {}};
  const Path content_path = fields.path("content");
  const std::size_t before = preamble.size();
  decode_content(*fields.find("content"), content_path, decoding, {role->second, marks, preamble}, message);
  if (message.blocks.empty() && preamble.size() > before) return;  // it was the billing line
  out.push_back(std::move(message));
}

}  // namespace

std::string strip_billing_lines(std::string_view text, std::string& preamble) {
  if (text.find(kBillingLine) == std::string_view::npos) return std::string(text);
  std::string out;
  bool taken = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(kBillingLine)) {
      preamble.append(line).append("\n");
      taken = true;
    } else {
      out.append(text.substr(0, end == std::string_view::npos ? end : end + 1));
      taken = false;
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    // The line break before a last line belonged to it.
    if (text.empty() && taken && end == std::string_view::npos && out.ends_with('\n')) out.pop_back();
  }
  return out;
}

std::vector<ir::Message> decode_messages(const Fields& fields, CacheMarks& marks, std::string& preamble) {
  std::vector<ir::Message> out;
  Decoding& decoding = fields.decoding();
  if (const auto system = fields.find("system")) {
    ir::Message message{ir::Role::kSystem, {}, {}};
    const Path path = fields.path("system");
    decode_content(*system, path, decoding, {Place::kSystem, marks, preamble}, message);
    // An empty one asks for nothing; a template may have a default for conversations without.
    if (!message.blocks.empty()) out.push_back(std::move(message));
  }
  if (!fields.required("messages")) return out;
  const auto messages = fields.array("messages");
  if (!messages) return out;
  const Path path = fields.path("messages");
  if (messages->size() == 0) decoding.fail(path, "must hold at least one message");
  each_object(*messages, Limit::kMessages, path, decoding,
              [&](const Fields& message) { decode_message(message, marks, preamble, out); });
  return out;
}

}  // namespace kvern::api
