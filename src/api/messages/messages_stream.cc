#include "api/messages/messages_stream.h"

#include <utility>

#include "api/answer_extension.h"
#include "api/messages/messages_error.h"
#include "api/messages/messages_ids.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

class MessagesStream final : public Encoder {
 public:
  explicit MessagesStream(MessageHead head) : head_(std::move(head)) {}

  void set_model(std::string_view name) override { head_.model = name; }

  void set_extension(std::string json) override { extension_ = std::move(json); }

  void add(std::uint32_t, const ir::Event& event, std::string& out) override {
    std::visit([&](const auto& e) { on(e, out); }, event);
  }

  /// May come before the start: clients skip it wherever it stands.
  void keep_alive(std::string& out) override {
    if (!over_) out += "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  }

 private:
  void on(const ir::Start& start, std::string& out) {
    out += "event: message_start\ndata: {\"type\":\"message_start\",\"message\":";
    append_message_head(head_, out);
    out += R"(,"content":[],"stop_reason":null,"stop_sequence":null,"usage":)";
    append_messages_usage(start.usage, out);
    out += "}}\n\n";
  }

  void on(const ir::BlockStart& start, std::string& out) {
    kind_ = start.kind;
    hidden_.clear();
    begin("content_block_start", start.index, out);
    switch (start.kind) {
      case ir::BlockKind::kText: out += R"(,"content_block":{"type":"text","text":""})"; break;
      case ir::BlockKind::kThinking:
        out += R"(,"content_block":{"type":"thinking","thinking":"","signature":""})";
        break;
      case ir::BlockKind::kToolCall:
        out += R"(,"content_block":{"type":"tool_use","id":)";
        json::append_quoted(out, tool_use_id(start.call_id, head_.id, start.index));
        out += R"(,"name":)";
        json::append_quoted(out, start.name);
        out += R"(,"input":{}})";
    }
    out += "}\n\n";
  }

  void on(const ir::BlockDelta& delta, std::string& out) {
    if (kind_ == ir::BlockKind::kThinking && head_.hide_thinking) {
      hidden_ += delta.text;
      return;
    }
    begin("content_block_delta", delta.index, out);
    switch (kind_) {
      case ir::BlockKind::kText: out += R"(,"delta":{"type":"text_delta","text":")"; break;
      case ir::BlockKind::kThinking: out += R"(,"delta":{"type":"thinking_delta","thinking":")"; break;
      case ir::BlockKind::kToolCall: out += R"(,"delta":{"type":"input_json_delta","partial_json":")"; break;
    }
    json::append_escaped(out, delta.text);
    out += "\"}}\n\n";
  }

  void on(const ir::BlockStop& stop, std::string& out) {
    if (kind_ == ir::BlockKind::kThinking) {
      begin("content_block_delta", stop.index, out);
      out += R"(,"delta":{"type":"signature_delta","signature":)";
      json::append_quoted(
          out, head_.hide_thinking ? hidden_thinking_signature(hidden_) : thinking_signature(head_.id, stop.index));
      out += "}}\n\n";
    }
    begin("content_block_stop", stop.index, out);
    out += "}\n\n";
  }

  void on(const ir::End& end, std::string& out) {
    over_ = true;
    out += "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{";
    append_stop(end, out);
    out += R"(},"usage":)";
    append_messages_usage(end.usage, out);
    out += "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"";
    append_extension(extension_, out);
    out += "}\n\n";
  }

  void on(const ir::Failure& failure, std::string& out) {
    over_ = true;
    out += "event: error\ndata: ";
    append_messages_error(failure.error, head_.id, out);
    out += "\n\n";
  }

  static void begin(std::string_view type, std::uint32_t index, std::string& out) {
    out += "event: ";
    out += type;
    out += "\ndata: {\"type\":\"";
    out += type;
    out += "\",\"index\":";
    json::append_number(out, index);
  }

  MessageHead head_;
  ir::BlockKind kind_ = ir::BlockKind::kText;
  std::string hidden_;  // thinking that only its signature will carry
  std::string extension_;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<Encoder> make_messages_stream(const MessageHead& head) {
  return std::make_unique<MessagesStream>(head);
}

}  // namespace kvern::api
