// Typed content: what a conversation is made of, in no dialect's spelling. Nothing a client sent is lost here: what
// came in by one API can be rendered, replayed and answered by another. Plain values: copy, move, compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// A call as the model wrote it. `arguments` is the exact text, so that a replayed prompt has the same tokens.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
  bool operator==(const ToolCall&) const = default;
};

struct ToolResult {
  std::string call_id;
  std::string name;
  std::vector<Text> parts;
  bool is_error = false;
  bool operator==(const ToolResult&) const = default;
};

using Content = std::variant<Text, Thinking, ToolCall, ToolResult>;

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

/// A function the model may call. `parameters` is the schema's exact JSON text, or empty.
struct Tool {
  std::string name;
  std::string description;
  std::string parameters;
  bool strict = false;
  bool operator==(const Tool&) const = default;
};

}  // namespace kvern::ir
