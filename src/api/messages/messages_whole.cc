#include "api/messages/messages_whole.h"

#include <utility>
#include <vector>

#include "api/answer_extension.h"
#include "api/messages/messages_ids.h"
#include "base/json_reader.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

struct Block {
  ir::BlockStart start;
  std::string text;  // or reasoning, or arguments
};

void write_input(const std::string& arguments, json::Writer& writer) {
  if (arguments.empty()) {
    writer.raw("{}");
    return;
  }
  std::string text = arguments;
  json::mend_half_surrogates(text);  // a model may write them, too; here its text becomes part of the JSON itself
  const auto document = json::Document::parse(text, {});
  if (document.ok() && (*document)->root().is(json::Kind::kObject)) {
    writer.raw((*document)->root().raw());
  } else {
    writer.begin_object().member(kInvalidJsonKey, arguments).end_object();
  }
}

class MessagesWhole final : public Encoder {
 public:
  explicit MessagesWhole(MessageHead head) : head_(std::move(head)) {}

  void set_model(std::string_view name) override { head_.model = name; }
  void set_extension(std::string json) override { extension_ = std::move(json); }
  void keep_alive(std::string&) override {}

  void add(std::uint32_t, const ir::Event& event, std::string& out) override {
    if (const auto* start = std::get_if<ir::BlockStart>(&event)) {
      blocks_.push_back({*start, {}});
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      blocks_.back().text += delta->text;
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      write(*end, out);
    }
  }

 private:
  void write_block(const Block& block, json::Writer& writer) const {
    writer.begin_object();
    switch (block.start.kind) {
      case ir::BlockKind::kText: writer.member("type", "text").member("text", block.text); break;
      case ir::BlockKind::kThinking:
        writer.member("type", "thinking");
        writer.member("thinking", head_.hide_thinking ? std::string() : block.text);
        writer.member("signature", head_.hide_thinking ? hidden_thinking_signature(block.text)
                                                       : thinking_signature(head_.id, block.start.index));
        break;
      case ir::BlockKind::kToolCall:
        writer.member("type", "tool_use");
        writer.member("id", tool_use_id(block.start.call_id, head_.id, block.start.index));
        writer.member("name", block.start.name).key("input");
        write_input(block.text, writer);
    }
    writer.end_object();
  }

  void write(const ir::End& end, std::string& out) const {
    append_message_head(head_, out);
    out += R"(,"content":)";
    json::Writer writer(out);
    writer.begin_array();
    for (const Block& block : blocks_) write_block(block, writer);
    writer.end_array();
    out += ',';
    append_stop(end, out);
    out += R"(,"usage":)";
    append_messages_usage(end.usage, out);
    append_extension(extension_, out);
    out += '}';
  }

  MessageHead head_;
  std::vector<Block> blocks_;
  std::string extension_;
};

}  // namespace

std::unique_ptr<Encoder> make_messages_whole(const MessageHead& head) { return std::make_unique<MessagesWhole>(head); }

}  // namespace kvern::api
