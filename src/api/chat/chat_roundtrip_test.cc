// Any conversation written as a chat body decodes to itself.
#include <gtest/gtest.h>

#include "api/chat/chat.h"
#include "base/json_writer.h"
#include "base/rng.h"

namespace kvern::api {
namespace {

std::string random_text(Rng& rng) {
  constexpr std::string_view kPieces[] = {"a", " ", "\n", "\"", "\\", "é", "😀", "<|im_end|>", "</think>", "\t", "{}"};
  std::string out;
  for (std::uint64_t n = rng.below(6); n > 0; --n) out += kPieces[rng.below(std::size(kPieces))];
  if (rng.below(8) == 0) out += '\0';
  return out;
}

std::vector<ir::Text> random_parts(Rng& rng) {
  std::vector<ir::Text> out(rng.below(4));
  for (ir::Text& part : out) part.text = random_text(rng);
  return out;
}

ir::Message random_message(Rng& rng) {
  ir::Message out;
  out.role = static_cast<ir::Role>(rng.below(5));
  if (out.role == ir::Role::kTool) {
    ir::ToolResult result{"call_" + std::to_string(rng.below(9)), {}, {}};
    for (ir::Text& part : random_parts(rng)) result.parts.emplace_back(std::move(part));
    out.blocks.push_back({std::move(result), {}});
    return out;
  }
  if (rng.below(4) == 0) out.name = "ann";
  if (out.role == ir::Role::kAssistant && rng.below(2) == 0)
    out.blocks.push_back({ir::Thinking{"t" + random_text(rng), {}, {}}, {}});
  for (ir::Text& part : random_parts(rng)) out.blocks.push_back({std::move(part), {}});
  if (out.role == ir::Role::kAssistant) {
    for (std::uint64_t n = rng.below(3); n > 0; --n)
      out.blocks.push_back({ir::ToolCall{"id" + std::to_string(n), "f", random_text(rng)}, {}});
  }
  return out;
}

/// One text may stand as a string or as a part; none as null or as an empty array.
void write_content(const std::vector<ir::Text>& parts, Rng& rng, json::Writer& writer) {
  writer.key("content");
  const bool shorter = rng.below(2) == 0;
  if (parts.empty() && shorter) {
    writer.null();
  } else if (parts.size() == 1 && shorter) {
    writer.value(parts[0].text);
  } else {
    writer.begin_array();
    for (const ir::Text& part : parts)
      writer.begin_object().member("text", part.text).member("type", "text").end_object();
    writer.end_array();
  }
}

void write(const ir::Message& message, Rng& rng, json::Writer& writer) {
  writer.begin_object().member("role", to_string(message.role));
  if (!message.name.empty()) writer.member("name", message.name);
  std::vector<ir::Text> parts;
  std::vector<ir::ToolCall> calls;
  for (const ir::Block& block : message.blocks) {
    if (const auto* text = std::get_if<ir::Text>(&block.content)) parts.push_back(*text);
    if (const auto* call = std::get_if<ir::ToolCall>(&block.content)) calls.push_back(*call);
    if (const auto* thinking = std::get_if<ir::Thinking>(&block.content))
      writer.member(rng.below(2) == 0 ? "reasoning" : "reasoning_content", thinking->text);
    if (const auto* result = std::get_if<ir::ToolResult>(&block.content)) {
      writer.member("tool_call_id", result->call_id);
      for (const ir::Part& part : result->parts) parts.push_back(std::get<ir::Text>(part));
    }
  }
  write_content(parts, rng, writer);
  if (!calls.empty()) {
    writer.key("tool_calls").begin_array();
    for (const ir::ToolCall& call : calls) {
      writer.begin_object().member("id", call.id).member("type", "function").key("function").begin_object();
      writer.member("name", call.name).member("arguments", call.arguments).end_object().end_object();
    }
    writer.end_array();
  }
  writer.end_object();
}

TEST(ChatRoundTrip, ConversationsComeBackWhole) {
  const auto dialect = make_chat_dialect(Limits());
  Rng rng(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ir::Message> messages;
    for (std::uint64_t n = 1 + rng.below(5); n > 0; --n) messages.push_back(random_message(rng));
    std::string body;
    json::Writer writer(body);
    writer.begin_object().key("messages").begin_array();
    for (const ir::Message& message : messages) write(message, rng, writer);
    writer.end_array().end_object();
    const auto call = dialect->decode(body, {});
    ASSERT_TRUE(call.ok()) << call.error().message << "\n" << body;
    ASSERT_EQ(std::get<std::vector<ir::Message>>(call->request.prompt), messages) << body;
  }
}

}  // namespace
}  // namespace kvern::api
