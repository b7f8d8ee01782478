#include "api/chat/chat_stream.h"

#include <algorithm>
#include <vector>

#include "api/answer_extension.h"
#include "api/custom_input.h"
#include "api/openai_error.h"
#include "api/openai_logprobs.h"
#include "api/openai_usage.h"
#include "base/json_writer.h"
#include "ir/usage_sum.h"

namespace kvern::api {
namespace {

/// One choice on its way.
struct Choice {
  bool opened = false;
  bool ended = false;
  ir::BlockKind kind = ir::BlockKind::kText;
  std::int64_t calls = 0;
  bool without_arguments = false;  // the last call has had none yet
  bool custom = false;             // it is one of a custom tool
  CustomInput input = {};          // of which the client sees the raw text
};

class ChatStream final : public Encoder {
 public:
  ChatStream(const AnswerHead& head, bool include_usage)
      : head_(head), include_usage_(include_usage), choices_(head.answers), usage_(head.choices) {
    prepare();
  }

  void set_model(std::string_view name) override {
    head_.model = name;
    prepare();
  }

  void set_extension(std::string json) override { extension_ = std::move(json); }

  void add(std::uint32_t choice, const ir::Event& event, std::string& out) override {
    index_ = choice;
    std::visit([&](const auto& e) { on(choices_[choice], e, out); }, event);
  }

  /// A chunk with nothing in it, of a choice that goes on; clients' idle timers count events, not comments.
  void keep_alive(std::string& out) override {
    const auto at = std::ranges::find_if(choices_, [](const Choice& choice) { return !choice.ended; });
    if (at == choices_.end()) return;
    index_ = static_cast<std::uint32_t>(at - choices_.begin());
    if (!at->opened) return open(*at, out);
    chunk("{}", "null", out);
  }

 private:
  void on(Choice& choice, const ir::Start&, std::string& out) {
    if (!choice.opened) open(choice, out);
  }

  void on(Choice& choice, const ir::BlockStart& start, std::string& out) {
    if (!choice.opened) open(choice, out);
    choice.kind = start.kind;
    if (choice.kind != ir::BlockKind::kToolCall) return;
    give_empty_arguments(choice, out);
    choice.custom = std::ranges::find(head_.custom_tools, start.name) != head_.custom_tools.end();
    choice.input = {};
    choice.without_arguments = !choice.custom;
    begin_chunk(out);
    out += R"({"tool_calls":[{"index":)";
    json::append_number(out, choice.calls++);
    out += R"(,"id":)";
    json::append_quoted(out, start.call_id);
    out += choice.custom ? R"(,"type":"custom","custom":{"name":)" : R"(,"type":"function","function":{"name":)";
    json::append_quoted(out, start.name);
    out += choice.custom ? R"(,"input":""}}]})" : R"(,"arguments":""}}]})";
    finish_chunk("null", out);
  }

  void on(Choice& choice, const ir::BlockDelta& delta, std::string& out) {
    if (choice.custom && choice.kind == ir::BlockKind::kToolCall) {
      piece_.clear();
      choice.input.add(delta.text, piece_);
      return input_chunk(choice, out);
    }
    begin_chunk(out);
    switch (choice.kind) {
      case ir::BlockKind::kText: out += R"({"content":")"; break;
      case ir::BlockKind::kThinking: out += R"({"reasoning_content":")"; break;
      case ir::BlockKind::kToolCall:
        choice.without_arguments = false;
        out += R"({"tool_calls":[{"index":)";
        json::append_number(out, choice.calls - 1);
        out += R"(,"function":{"arguments":")";
    }
    json::append_escaped(out, delta.text);
    out += choice.kind == ir::BlockKind::kToolCall ? R"("}}]})" : R"("})";
    if (delta.logprobs.empty()) return finish_chunk("null", out);
    out += R"(,"logprobs":{"content":[)";
    append_chat_logprobs(delta.logprobs, out);
    out += R"(],"refusal":null})";
    end_chunk("null", out);
  }

  void on(Choice& choice, const ir::BlockStop&, std::string& out) {
    if (!choice.custom || choice.kind != ir::BlockKind::kToolCall) return;
    piece_.clear();
    choice.input.finish(piece_);
    input_chunk(choice, out);
  }

  void on(Choice& choice, const ir::End& end, std::string& out) {
    // A call that was cut before its arguments must not look complete.
    if (end.reason != ir::FinishReason::kLength) give_empty_arguments(choice, out);
    std::string reason = "\"";
    reason += chat_finish_reason(end.reason, choice.calls > 0);
    reason += '"';
    choice.ended = true;
    usage_.add(index_, end.usage);
    const bool is_last = ++ended_ == choices_.size();
    begin_chunk(out);
    out += "{}";
    finish_chunk(reason, out, is_last && !include_usage_ ? std::string_view(extension_) : std::string_view());
    if (is_last) append_stream_end(head_text_, include_usage_, usage_.total(), extension_, out);
  }

  void on(Choice&, const ir::Failure& failure, std::string& out) {
    out += "data: ";
    append_openai_error(failure.error, out);
    out += "\n\n";
  }

  void open(Choice& choice, std::string& out) {
    choice.opened = true;
    chunk(R"({"role":"assistant","content":""})", "null", out);
  }

  /// "{}" for a call without arguments; clients parse the joined pieces.
  void give_empty_arguments(Choice& choice, std::string& out) {
    if (!choice.without_arguments) return;
    choice.without_arguments = false;
    begin_chunk(out);
    out += R"({"tool_calls":[{"index":)";
    json::append_number(out, choice.calls - 1);
    out += R"(,"function":{"arguments":"{}"}}]})";
    finish_chunk("null", out);
  }

  /// What is known of a custom tool's input since the last chunk.
  void input_chunk(const Choice& choice, std::string& out) const {
    if (piece_.empty()) return;
    begin_chunk(out);
    out += R"({"tool_calls":[{"index":)";
    json::append_number(out, choice.calls - 1);
    out += R"(,"custom":{"input":)";
    json::append_quoted(out, piece_);
    out += "}}]}";
    finish_chunk("null", out);
  }

  void chunk(std::string_view delta, std::string_view reason, std::string& out) {
    begin_chunk(out);
    out += delta;
    finish_chunk(reason, out);
  }

  void begin_chunk(std::string& out) const {
    out += prefix_;
    json::append_number(out, index_);
    out += R"(,"delta":)";
  }

  void finish_chunk(std::string_view reason, std::string& out, std::string_view extension = {}) const {
    out += R"(,"logprobs":null)";
    end_chunk(reason, out, extension);
  }

  void end_chunk(std::string_view reason, std::string& out, std::string_view extension = {}) const {
    out += R"(,"finish_reason":)";
    out += reason;
    out += include_usage_ ? "}],\"usage\":null" : "}]";
    append_extension(extension, out);
    out += "}\n\n";
  }

  void prepare() {
    head_text_ =
        R"(data: {"id":"chatcmpl-)" + hex64(head_.id.value) + R"(","object":"chat.completion.chunk","created":)";
    json::append_number(head_text_, head_.created.count());
    head_text_ += R"(,"model":)";
    json::append_quoted(head_text_, head_.model);
    head_text_ += ',';
    prefix_ = head_text_ + R"("choices":[{"index":)";
  }

  AnswerHead head_;
  bool include_usage_;
  std::string head_text_;
  std::string prefix_;
  std::vector<Choice> choices_;
  std::size_t ended_ = 0;
  ir::UsageSum usage_;
  std::string extension_;
  std::uint32_t index_ = 0;  // the choice being written
  std::string piece_;
};

}  // namespace

std::string_view chat_finish_reason(ir::FinishReason reason, bool has_calls) noexcept {
  if (reason == ir::FinishReason::kLength) return "length";
  return has_calls ? "tool_calls" : "stop";
}

std::unique_ptr<Encoder> make_chat_stream(const AnswerHead& head, bool include_usage) {
  return std::make_unique<ChatStream>(head, include_usage);
}

}  // namespace kvern::api
