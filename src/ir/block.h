// Typed content: what a conversation is made of, in no dialect's spelling. Nothing a client sent is lost here: what
// came in by one API can be rendered, replayed and answered by another. Plain values: copy, move, compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvern::ir {

enum class Role : std::uint8_t { kSystem, kDeveloper, kUser, kAssistant, kTool };
const char* to_string(Role role) noexcept;

/// Valid UTF-8, without a bound of its own (the body's limit bounds it).
struct Text {
  std::string text;
  bool operator==(const Text&) const = default;
};

/// Model reasoning. `signature` and `encrypted` are carried untouched for the dialects that have them.
struct Thinking {
  std::string text;
  std::string signature;
  std::string encrypted;
  bool operator==(const Thinking&) const = default;
};

/// Reasoning that whoever made it keeps from the client: opaque, carried untouched, never rendered.
struct RedactedThinking {
  std::string data;
  bool operator==(const RedactedThinking&) const = default;
};

/// A picture. Only a model that sees can take it; the pipeline refuses it for others.
struct Image {
  std::string media_type;   // "image/png"
  std::string data;         // base64, checked by the dialect
  std::string detail = {};  // how closely to look, as the client said; may be empty
  bool operator==(const Image&) const = default;
};

/// A file. One of plain text is text to every model; one of bytes is refused by the pipeline where the model cannot
/// read its kind.
struct Document {
  std::string media_type;    // "application/pdf", "text/plain"
  std::string data;          // base64, checked by the dialect; empty where `text` is the content
  std::string text = {};     // the content of a plain one
  std::string title = {};    // or file name; may be empty
  std::string context = {};  // what the client says about it, for the model to read; may be empty
  bool operator==(const Document&) const = default;
};

/// What a tool gives back is made of these.
using Part = std::variant<Text, Image, Document>;

/// Who runs a tool and how it is called: the client, with JSON by a schema; the client, with raw text (perhaps of a
/// grammar); or the server, by a name that kvern may or may not have. The last is carried, and not offered to the
/// model.
enum class ToolKind : std::uint8_t { kFunction, kCustom, kHosted };
const char* to_string(ToolKind kind) noexcept;

/// A call as the model wrote it, so that a replayed prompt has the same tokens.
struct ToolCall {
  std::string id;         // the model's own, or the pipeline's; a dialect whose ids look otherwise maps both ways
  std::string name;       // inside its namespace
  std::string arguments;  // exact text: JSON for a function (not checked: models err), raw input for a custom tool
  ToolKind kind = ToolKind::kFunction;
  std::string tool_namespace = {};
  bool operator==(const ToolCall&) const = default;
};

struct ToolResult {
  std::string call_id;
  std::string name;
  std::vector<Part> parts;
  bool is_error = false;
  ToolKind kind = ToolKind::kFunction;  // of the call
  bool operator==(const ToolResult&) const = default;
};

using Content = std::variant<Text, Thinking, RedactedThinking, ToolCall, ToolResult, Image, Document>;

/// A request to keep the prompt up to and including the marked block (`cache_control`).
struct CacheMark {
  std::uint32_t ttl_seconds = 300;
  bool operator==(const CacheMark&) const = default;
};

struct Block {
  Content content;
  std::optional<CacheMark> cache;
  bool operator==(const Block&) const = default;
};

struct Message {
  Role role = Role::kUser;
  std::string name;
  std::vector<Block> blocks;
  bool operator==(const Message&) const = default;
};

/// What the raw input of a custom tool must match.
struct Grammar {
  enum class Syntax : std::uint8_t { kLark, kRegex };
  Syntax syntax = Syntax::kLark;
  std::string definition;
  bool operator==(const Grammar&) const = default;
};

/// A tool the model may call. `parameters` is the schema's exact JSON text, or empty; only functions have one.
struct Tool {
  std::string name;
  std::string description;
  std::string parameters;
  bool strict = false;
  ToolKind kind = ToolKind::kFunction;
  std::string tool_namespace = {};      // empty: none; Request::tool_namespaces describes it
  std::optional<Grammar> grammar = {};  // of a custom tool; absent: any text
  std::optional<CacheMark> cache = {};  // keep the prompt up to and including this tool
  bool operator==(const Tool&) const = default;
};

struct ToolNamespace {
  std::string name;
  std::string description;
  bool operator==(const ToolNamespace&) const = default;
};

/// The one name by which a model knows a tool: "space__name", or the name alone where there is no namespace.
std::string prompt_name(std::string_view tool_namespace, std::string_view name);

}  // namespace kvern::ir
