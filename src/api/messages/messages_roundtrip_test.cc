// Any conversation written as a Messages body decodes to itself, and what an answer showed comes back as what the model
// wrote.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/messages/messages.h"
#include "api/messages/messages_content.h"
#include "api/messages/messages_ids.h"
#include "base/json_writer.h"
#include "base/rng.h"

namespace kvern::api {
namespace {

namespace bj = boost::json;

std::string random_text(Rng& rng) {
  constexpr std::string_view kPieces[] = {"a", " ", "\n", "\"", "\\", "é", "😀", "<|im_end|>", "</think>", "\t", "{}"};
  std::string out;
  for (std::uint64_t n = rng.below(6); n > 0; --n) out += kPieces[rng.below(std::size(kPieces))];
  if (rng.below(8) == 0) out += '\0';
  return out;
}

std::optional<ir::CacheMark> random_mark(Rng& rng, int& left) {
  if (left == 0 || rng.below(8) != 0) return std::nullopt;
  --left;
  return ir::CacheMark{90};
}

ir::Document random_document(Rng& rng) {
  if (rng.below(2) == 0) return {"application/pdf", "JVBERg==", {}, random_text(rng), random_text(rng)};
  return {"text/plain", {}, random_text(rng), random_text(rng), random_text(rng)};
}

ir::ToolResult random_result(Rng& rng) {
  ir::ToolResult out{"toolu_x" + std::to_string(rng.below(9)), {}, {}, rng.below(4) == 0};
  for (std::uint64_t n = rng.below(4); n > 0; --n) {
    switch (rng.below(3)) {
      case 0: out.parts.emplace_back(ir::Image{"image/png", "iVBO"}); break;
      case 1: out.parts.emplace_back(random_document(rng)); break;
      default: out.parts.emplace_back(ir::Text{random_text(rng)});
    }
  }
  return out;
}

ir::Content random_content(ir::Role role, Rng& rng) {
  const std::uint64_t kind = rng.below(4);
  if (role == ir::Role::kUser && kind == 0) return random_result(rng);
  if (role == ir::Role::kUser && kind == 1) return random_document(rng);
  if (role == ir::Role::kAssistant && kind == 0) return ir::Thinking{"t" + random_text(rng), random_text(rng), {}};
  if (role == ir::Role::kAssistant && kind == 1) return ir::ToolCall{"toolu_01", "f", R"({ "a" :1.0})"};
  if (role == ir::Role::kAssistant && kind == 2) return ir::RedactedThinking{random_text(rng)};
  return ir::Text{random_text(rng)};
}

std::vector<ir::Message> random_conversation(Rng& rng) {
  std::vector<ir::Message> out;
  int marks = 4;
  for (std::uint64_t n = 1 + rng.below(5); n > 0; --n) {
    constexpr ir::Role kRoles[] = {ir::Role::kUser, ir::Role::kAssistant, ir::Role::kSystem};
    ir::Message message{kRoles[rng.below(3)], {}, {}};
    for (std::uint64_t k = rng.below(4); k > 0; --k)
      message.blocks.push_back({random_content(message.role, rng), random_mark(rng, marks)});
    out.push_back(std::move(message));
  }
  out.push_back({ir::Role::kUser, {}, {{ir::Text{"go on"}, {}}}});
  return out;
}

struct WriteBlock {
  json::Writer& writer;
  void operator()(const ir::Text& text) const { writer.member("type", "text").member("text", text.text); }
  void operator()(const ir::Thinking& thinking) const {
    writer.member("type", "thinking").member("thinking", thinking.text).member("signature", thinking.signature);
  }
  void operator()(const ir::RedactedThinking& redacted) const {
    writer.member("type", "redacted_thinking").member("data", redacted.data);
  }
  void operator()(const ir::Image& image) const {
    writer.member("type", "image").key("source").begin_object().member("type", "base64");
    writer.member("media_type", image.media_type).member("data", image.data).end_object();
  }
  void operator()(const ir::Document& document) const {
    writer.member("type", "document").member("title", document.title).member("context", document.context);
    const bool plain = document.data.empty();
    writer.key("source").begin_object().member("type", plain ? "text" : "base64");
    writer.member("media_type", document.media_type).member("data", plain ? document.text : document.data).end_object();
  }
  void operator()(const ir::ToolCall& call) const {
    writer.member("type", "tool_use").member("id", call.id).member("name", call.name).key("input").raw(call.arguments);
  }
  void operator()(const ir::ToolResult& result) const {
    writer.member("type", "tool_result").member("tool_use_id", result.call_id).member("is_error", result.is_error);
    writer.key("content").begin_array();
    for (const ir::Part& part : result.parts) {
      writer.begin_object();
      std::visit(*this, part);
      writer.end_object();
    }
    writer.end_array();
  }
};

std::string body_of(const std::vector<ir::Message>& messages, Rng& rng) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object().member("max_tokens", 8).key("messages").begin_array();
  for (const ir::Message& message : messages) {
    writer.begin_object().member("role", to_string(message.role)).key("content");
    const auto* text = message.blocks.size() == 1 ? std::get_if<ir::Text>(&message.blocks[0].content) : nullptr;
    if (text != nullptr && !message.blocks[0].cache && rng.below(2) == 0) {
      writer.value(text->text).end_object();  // one text may stand as a string
      continue;
    }
    writer.begin_array();
    for (const ir::Block& block : message.blocks) {
      writer.begin_object();
      std::visit(WriteBlock{writer}, block.content);
      if (block.cache) {
        writer.key("cache_control").begin_object().member("type", "ephemeral");
        writer.member("ttl", std::to_string(block.cache->ttl_seconds) + "s").end_object();
      }
      writer.end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().end_object();
  return body;
}

TEST(MessagesRoundTrip, ConversationsComeBackWhole) {
  Rng rng(17);
  const auto dialect = make_messages_dialect(Limits());
  for (int round = 0; round < 2000; ++round) {
    const auto conversation = random_conversation(rng);
    const std::string body = body_of(conversation, rng);
    const auto call = dialect->decode(body, {});
    ASSERT_TRUE(call.ok()) << call.error().message << "\n" << body;
    ASSERT_EQ(std::get<std::vector<ir::Message>>(call->request.prompt), conversation) << body;
  }
}

/// Content of a whole answer that said this.
bj::array answered(const std::string& fields, const std::vector<ir::Event>& events) {
  const auto dialect = make_messages_dialect(Limits());
  const std::string body = R"({"max_tokens":8,"messages":[{"role":"user","content":"hi"}])" + fields + "}";
  auto call = dialect->decode(body, {RequestId{0xC0FFEE}, {}});
  std::string out;
  for (const ir::Event& event : events) call->encoder->add(0, event, out);
  return bj::parse(out).at("content").as_array();
}

/// The blocks of the same content, sent back.
std::vector<ir::Block> returned(const bj::array& content) {
  const bj::object body{{"max_tokens", 8},
                        {"messages", bj::array{bj::object{{"role", "assistant"}, {"content", content}},
                                               bj::object{{"role", "user"}, {"content", "go on"}}}}};
  auto call = make_messages_dialect(Limits())->decode(bj::serialize(body), {});
  EXPECT_TRUE(call.ok()) << call.error().message;
  return std::get<std::vector<ir::Message>>(call->request.prompt)[0].blocks;
}

TEST(MessagesRoundTrip, WhatAnAnswerShowedComesBackAsTheModelWroteIt) {
  for (const std::string arguments : {R"({"q":"ls"})", "[1", "\"text\"", ""}) {
    for (const std::string id : {"call_00000000000c0ffee001", "functions.Bash:0", "", "toolu_1", "é"}) {
      const auto blocks = returned(answered("", {ir::Start{}, ir::BlockStart{0, ir::BlockKind::kToolCall, id, "Bash"},
                                                 ir::BlockDelta{0, arguments}, ir::BlockStop{0}, ir::End{}}));
      const auto& call = std::get<ir::ToolCall>(blocks[0].content);
      EXPECT_EQ(call.id, id);
      EXPECT_EQ(call.arguments, arguments.empty() ? "{}" : arguments);
    }
  }
}

TEST(MessagesRoundTrip, ThinkingComesBackShownOrHidden) {
  const std::vector<ir::Event> events{ir::Start{}, ir::BlockStart{0, ir::BlockKind::kThinking, {}, {}},
                                      ir::BlockDelta{0, "hm 😀\n"}, ir::BlockStop{0}, ir::End{}};
  for (const std::string fields : {"", R"(,"thinking":{"type":"adaptive","display":"omitted"})"}) {
    const bj::array content = answered(fields, events);
    EXPECT_EQ(content[0].at("thinking").as_string().empty(), !fields.empty());
    EXPECT_FALSE(content[0].at("signature").as_string().empty());
    EXPECT_EQ(std::get<ir::Thinking>(returned(content)[0].content).text, "hm 😀\n");
  }
}

TEST(MessagesRoundTrip, IdsOfOthersStayAsTheyAre) {
  for (const char* id :
       {"", "toolu_", "toolu_01AbC", "call_1", "toolu_0000000000c0ffee000", "toolu_00000000000c0ffee000_?",
        "toolu_00000000000c0ffee000_A", "toolu_00000000000c0ffee000_-_-_"}) {
    EXPECT_EQ(call_id_of(id), id);
  }
  EXPECT_NE(tool_use_id("x", RequestId{1}, 0), tool_use_id("x", RequestId{1}, 1));
  EXPECT_NE(tool_use_id("x", RequestId{1}, 0), tool_use_id("x", RequestId{2}, 0));
  for (const char* signature : {"", "foreign", "kv1h.?", "kv1h.-_-_", "kv1.00"})
    EXPECT_FALSE(hidden_thinking(signature));
}

TEST(MessagesRoundTrip, BillingLinesGoWhereverALineBeginsWithThem) {
  const std::string line = "x-anthropic-billing-header: cc_version=1; cch=2;";
  const auto strip = [&](const std::string& text) {
    std::string preamble;
    std::string out = strip_billing_lines(text, preamble);
    return out + "|" + preamble;
  };
  EXPECT_EQ(strip("S"), "S|");
  EXPECT_EQ(strip(line), "|" + line + "\n");
  EXPECT_EQ(strip(line + "\nS"), "S|" + line + "\n");
  EXPECT_EQ(strip("S\n" + line), "S|" + line + "\n");
  EXPECT_EQ(strip("S\n" + line + "\nT\n"), "S\nT\n|" + line + "\n");
  EXPECT_EQ(strip("S " + line), "S " + line + "|");
  EXPECT_EQ(strip("S\n" + line + "\n" + line), "S|" + line + "\n" + line + "\n");
}

}  // namespace
}  // namespace kvern::api
