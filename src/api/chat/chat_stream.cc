#include "api/chat/chat_stream.h"

#include "api/openai_error.h"
#include "api/openai_usage.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

class ChatStream final : public Encoder {
 public:
  ChatStream(const ChatHead& head, bool include_usage) : head_(head), include_usage_(include_usage) { prepare(); }

  void set_model(std::string_view name) override {
    head_.model = name;
    prepare();
  }

  void add(const ir::Event& event, std::string& out) override {
    std::visit([&](const auto& e) { on(e, out); }, event);
  }

  /// A chunk with nothing in it; clients' idle timers count events, not comments.
  void keep_alive(std::string& out) override {
    if (!opened_) return open(out);
    chunk("{}", "null", out);
  }

 private:
  void on(const ir::Start&, std::string& out) {
    if (!opened_) open(out);
  }

  void on(const ir::BlockStart& start, std::string& out) {
    if (!opened_) open(out);
    kind_ = start.kind;
    if (kind_ != ir::BlockKind::kToolCall) return;
    give_empty_arguments(out);
    without_arguments_ = true;
    out += prefix_;
    out += R"({"tool_calls":[{"index":)";
    json::append_number(out, calls_++);
    out += R"(,"id":)";
    json::append_quoted(out, start.call_id);
    out += R"(,"type":"function","function":{"name":)";
    json::append_quoted(out, start.name);
    out += R"(,"arguments":""}}]})";
    finish_chunk("null", out);
  }

  void on(const ir::BlockDelta& delta, std::string& out) {
    out += prefix_;
    switch (kind_) {
      case ir::BlockKind::kText: out += R"({"content":")"; break;
      case ir::BlockKind::kThinking: out += R"({"reasoning_content":")"; break;
      case ir::BlockKind::kToolCall:
        without_arguments_ = false;
        out += R"({"tool_calls":[{"index":)";
        json::append_number(out, calls_ - 1);
        out += R"(,"function":{"arguments":")";
    }
    json::append_escaped(out, delta.text);
    out += kind_ == ir::BlockKind::kToolCall ? R"("}}]})" : R"("})";
    finish_chunk("null", out);
  }

  void on(const ir::BlockStop&, std::string&) {}

  void on(const ir::End& end, std::string& out) {
    // A call that was cut before its arguments must not look complete.
    if (end.reason != ir::FinishReason::kLength) give_empty_arguments(out);
    out += prefix_;
    out += "{}";
    std::string reason = "\"";
    reason += chat_finish_reason(end.reason, calls_ > 0);
    reason += '"';
    finish_chunk(reason, out);
    if (include_usage_) {
      out += head_text_;
      out += R"("choices":[],"usage":)";
      append_openai_usage(end.usage, out);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void on(const ir::Failure& failure, std::string& out) {
    out += "data: ";
    append_openai_error(failure.error, out);
    out += "\n\n";
  }

  void open(std::string& out) {
    opened_ = true;
    chunk(R"({"role":"assistant","content":""})", "null", out);
  }

  /// "{}" for a call without arguments; clients parse the joined pieces.
  void give_empty_arguments(std::string& out) {
    if (!without_arguments_) return;
    without_arguments_ = false;
    out += prefix_;
    out += R"({"tool_calls":[{"index":)";
    json::append_number(out, calls_ - 1);
    out += R"(,"function":{"arguments":"{}"}}]})";
    finish_chunk("null", out);
  }

  void chunk(std::string_view delta, std::string_view reason, std::string& out) {
    out += prefix_;
    out += delta;
    finish_chunk(reason, out);
  }

  void finish_chunk(std::string_view reason, std::string& out) {
    out += R"(,"logprobs":null,"finish_reason":)";
    out += reason;
    out += include_usage_ ? "}],\"usage\":null}\n\n" : "}]}\n\n";
  }

  void prepare() {
    head_text_ =
        R"(data: {"id":"chatcmpl-)" + hex64(head_.id.value) + R"(","object":"chat.completion.chunk","created":)";
    json::append_number(head_text_, head_.created.count());
    head_text_ += R"(,"model":)";
    json::append_quoted(head_text_, head_.model);
    head_text_ += ',';
    prefix_ = head_text_ + R"("choices":[{"index":0,"delta":)";
  }

  ChatHead head_;
  bool include_usage_;
  std::string head_text_;
  std::string prefix_;
  bool opened_ = false;
  ir::BlockKind kind_ = ir::BlockKind::kText;
  std::int64_t calls_ = 0;
  bool without_arguments_ = false;  // the last call has had none yet
};

}  // namespace

std::string_view chat_finish_reason(ir::FinishReason reason, bool has_calls) noexcept {
  if (reason == ir::FinishReason::kLength) return "length";
  return has_calls ? "tool_calls" : "stop";
}

std::unique_ptr<Encoder> make_chat_stream(const ChatHead& head, bool include_usage) {
  return std::make_unique<ChatStream>(head, include_usage);
}

}  // namespace kvern::api
