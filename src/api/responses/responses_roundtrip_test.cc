// Any conversation written as Responses items decodes to itself.
#include <gtest/gtest.h>

#include "api/responses/responses.h"
#include "base/json_writer.h"
#include "base/rng.h"

namespace kvern::api {
namespace {

class ResponsesRoundTrip : public ::testing::Test {
 protected:
  std::string random_text() {
    constexpr std::string_view kPieces[] = {"a",  " ",          "\n",       "\"", "\\", "é",
                                            "😀", "<|im_end|>", "</think>", "\t", "{}"};
    std::string out;
    for (std::uint64_t n = rng_.below(6); n > 0; --n) out += kPieces[rng_.below(std::size(kPieces))];
    if (rng_.below(8) == 0) out += '\0';
    return out;
  }

  std::vector<ir::Part> random_parts() {
    std::vector<ir::Part> out(rng_.below(3));
    for (ir::Part& part : out) part = ir::Text{random_text()};
    if (rng_.below(6) == 0) out.emplace_back(ir::Image{"image/png", "iVBORw==", "low"});
    return out;
  }

  ir::Message random_message() {
    ir::Message out{static_cast<ir::Role>(rng_.below(5)), {}, {}};
    const auto kind = rng_.below(2) == 0 ? ir::ToolKind::kFunction : ir::ToolKind::kCustom;
    if (out.role == ir::Role::kTool) {
      out.blocks.push_back({ir::ToolResult{"c" + std::to_string(rng_.below(9)), {}, random_parts(), false, kind}, {}});
      return out;
    }
    if (out.role != ir::Role::kAssistant) {
      for (ir::Part& part : random_parts())
        std::visit([&](auto& content) { out.blocks.push_back({std::move(content), {}}); }, part);
      return out;
    }
    for (std::uint64_t n = 1 + rng_.below(4); n > 0; --n) {
      switch (rng_.below(3)) {
        case 0: out.blocks.push_back({ir::Thinking{"t" + random_text(), {}, {}}, {}}); break;
        case 1: out.blocks.push_back({ir::Text{random_text()}, {}}); break;
        default:
          out.blocks.push_back(
              {ir::ToolCall{"c" + std::to_string(n), "f", random_text(), kind, rng_.below(2) == 0 ? "space" : ""}, {}});
      }
    }
    return out;
  }

  void write_parts(const std::vector<ir::Part>& parts, json::Writer& writer) {
    const auto* only = parts.size() == 1 ? std::get_if<ir::Text>(&parts[0]) : nullptr;
    if (only != nullptr && rng_.below(2) == 0) {
      writer.value(only->text);
      return;
    }
    writer.begin_array();
    for (const ir::Part& part : parts) {
      if (const auto* text = std::get_if<ir::Text>(&part)) {
        writer.begin_object().member("type", "input_text").member("text", text->text).end_object();
      } else {
        const auto& image = std::get<ir::Image>(part);
        writer.begin_object().member("type", "input_image").member("detail", image.detail);
        writer.member("image_url", "data:" + image.media_type + ";base64," + image.data).end_object();
      }
    }
    writer.end_array();
  }

  /// Thinking goes sealed, in the clear, or both with what is sealed being right.
  void write(const ir::Thinking& thinking, json::Writer& writer) {
    const auto form = rng_.below(3);
    writer.begin_object().member("type", "reasoning").key("summary").begin_array();
    if (form == 1) writer.begin_object().member("type", "summary_text").member("text", thinking.text).end_object();
    writer.end_array();
    if (form != 1) writer.member("encrypted_content", seal_.seal("responses reasoning of default", thinking.text));
    if (form == 2) {
      writer.key("content").begin_array();
      writer.begin_object().member("type", "reasoning_text").member("text", "other").end_object().end_array();
    }
    writer.end_object();
  }
  void write(const ir::Text& text, json::Writer& writer) {
    writer.begin_object().member("role", "assistant").key("content");
    write_parts({text}, writer);
    writer.end_object();
  }
  void write(const ir::ToolCall& call, json::Writer& writer) {
    const bool custom = call.kind == ir::ToolKind::kCustom;
    writer.begin_object().member("type", custom ? "custom_tool_call" : "function_call").member("call_id", call.id);
    writer.member("name", call.name).member(custom ? "input" : "arguments", call.arguments);
    if (!call.tool_namespace.empty()) writer.member("namespace", call.tool_namespace);
    writer.end_object();
  }
  void write(const ir::ToolResult& result, json::Writer& writer) {
    const bool custom = result.kind == ir::ToolKind::kCustom;
    writer.begin_object().member("type", custom ? "custom_tool_call_output" : "function_call_output");
    writer.member("call_id", result.call_id).key("output");
    write_parts(result.parts, writer);
    writer.end_object();
  }
  void write(const auto&, json::Writer&) { FAIL() << "not drawn"; }

  void write_message(const ir::Message& message, json::Writer& writer) {
    if (message.role == ir::Role::kAssistant || message.role == ir::Role::kTool) {
      for (const ir::Block& block : message.blocks)
        std::visit([&](const auto& content) { write(content, writer); }, block.content);
      return;
    }
    std::vector<ir::Part> parts;
    for (const ir::Block& block : message.blocks) {
      if (const auto* text = std::get_if<ir::Text>(&block.content)) parts.emplace_back(*text);
      if (const auto* image = std::get_if<ir::Image>(&block.content)) parts.emplace_back(*image);
    }
    writer.begin_object().member("type", "message").member("role", to_string(message.role)).key("content");
    write_parts(parts, writer);
    writer.end_object();
  }

  Rng rng_{17};
  ManualClock clock_;
  Seal seal_{Secret(std::string(Seal::kKeyBytes, 'k'))};
};

TEST_F(ResponsesRoundTrip, ConversationsComeBackWhole) {
  const auto dialect = make_responses_dialect(Limits(), {seal_, clock_});
  for (int round = 0; round < 1000; ++round) {
    std::vector<ir::Message> messages;
    for (std::uint64_t n = 1 + rng_.below(6); n > 0; --n) {
      ir::Message next = random_message();
      // Two of the assistant's are one.
      if (!messages.empty() && next.role == ir::Role::kAssistant && messages.back().role == ir::Role::kAssistant)
        continue;
      messages.push_back(std::move(next));
    }
    std::string body;
    json::Writer writer(body);
    writer.begin_object().key("input").begin_array();
    for (const ir::Message& message : messages) write_message(message, writer);
    writer.end_array().end_object();
    const auto call = dialect->decode(body, {});
    ASSERT_TRUE(call.ok()) << call.error().message << "\n" << body;
    ASSERT_EQ(std::get<std::vector<ir::Message>>(call->request.prompt), messages) << body;
  }
}

}  // namespace
}  // namespace kvern::api
