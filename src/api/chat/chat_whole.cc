#include "api/chat/chat_whole.h"

#include <vector>

#include "api/openai_usage.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

class ChatWhole final : public Encoder {
 public:
  explicit ChatWhole(const ChatHead& head) : head_(head) {}

  void set_model(std::string_view name) override { head_.model = name; }
  void keep_alive(std::string&) override {}

  void add(const ir::Event& event, std::string& out) override {
    if (const auto* start = std::get_if<ir::BlockStart>(&event)) {
      kind_ = start->kind;
      if (kind_ == ir::BlockKind::kToolCall) calls_.push_back({start->call_id, start->name, {}});
      has_text_ = has_text_ || kind_ == ir::BlockKind::kText;
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      target() += delta->text;
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      write(*end, out);
    }
  }

 private:
  std::string& target() {
    switch (kind_) {
      case ir::BlockKind::kThinking: return reasoning_;
      case ir::BlockKind::kToolCall: return calls_.back().arguments;
      case ir::BlockKind::kText: break;
    }
    return text_;
  }

  void write(const ir::End& end, std::string& out) {
    json::Writer writer(out);
    writer.begin_object();
    writer.member("id", "chatcmpl-" + hex64(head_.id.value)).member("object", "chat.completion");
    writer.member("created", head_.created.count()).member("model", head_.model);
    writer.key("choices").begin_array().begin_object().member("index", 0);
    writer.key("message").begin_object().member("role", "assistant").key("content");
    // null beside calls, as OpenAI has it; an answer without anything is the empty string.
    (has_text_ || calls_.empty()) ? writer.value(text_) : writer.null();
    writer.key("refusal").null();
    if (!reasoning_.empty()) writer.member("reasoning_content", reasoning_);
    if (!calls_.empty()) write_calls(end.reason, writer);
    writer.end_object();
    writer.key("logprobs").null();
    writer.member("finish_reason", chat_finish_reason(end.reason, !calls_.empty()));
    writer.end_object().end_array();
    std::string usage;
    append_openai_usage(end.usage, usage);
    writer.key("usage").raw(usage).end_object();
  }

  void write_calls(ir::FinishReason reason, json::Writer& writer) const {
    writer.key("tool_calls").begin_array();
    for (const ir::ToolCall& call : calls_) {
      writer.begin_object().member("id", call.id).member("type", "function");
      writer.key("function").begin_object().member("name", call.name).key("arguments");
      // The last call of a cut answer stays as it is: "{}" would make it look complete.
      const bool cut = reason == ir::FinishReason::kLength && &call == &calls_.back();
      writer.value(call.arguments.empty() && !cut ? std::string("{}") : call.arguments);
      writer.end_object().end_object();
    }
    writer.end_array();
  }

  ChatHead head_;
  ir::BlockKind kind_ = ir::BlockKind::kText;
  bool has_text_ = false;
  std::string text_;
  std::string reasoning_;
  std::vector<ir::ToolCall> calls_;
};

}  // namespace

std::unique_ptr<Encoder> make_chat_whole(const ChatHead& head) { return std::make_unique<ChatWhole>(head); }

}  // namespace kvern::api
