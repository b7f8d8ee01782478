#include "api/chat/chat_whole.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/chat/chat_stream.h"
#include "api/custom_input.h"
#include "api/openai_logprobs.h"
#include "api/openai_usage.h"
#include "base/json_writer.h"
#include "ir/usage_sum.h"

namespace kvern::api {
namespace {

/// What came of one choice.
struct Choice {
  ir::BlockKind kind = ir::BlockKind::kText;
  bool has_text = false;
  std::string text;
  std::string reasoning;
  std::vector<ir::ToolCall> calls;
  std::string logprobs;  // entries as JSON
  ir::FinishReason reason = ir::FinishReason::kStop;

  std::string& target() {
    switch (kind) {
      case ir::BlockKind::kThinking: return reasoning;
      case ir::BlockKind::kToolCall: return calls.back().arguments;
      case ir::BlockKind::kText: break;
    }
    return text;
  }
};

void write_custom(const ir::ToolCall& call, json::Writer& writer) {
  CustomInput reader;
  std::string input;
  reader.add(call.arguments, input);
  reader.finish(input);
  writer.begin_object().member("id", call.id).member("type", "custom");
  writer.key("custom").begin_object().member("name", call.name).member("input", input).end_object();
  writer.end_object();
}

void write_calls(const Choice& choice, json::Writer& writer) {
  writer.key("tool_calls").begin_array();
  for (const ir::ToolCall& call : choice.calls) {
    if (call.kind == ir::ToolKind::kCustom) {
      write_custom(call, writer);
      continue;
    }
    writer.begin_object().member("id", call.id).member("type", "function");
    writer.key("function").begin_object().member("name", call.name).key("arguments");
    // The last call of a cut answer stays as it is: "{}" would make it look complete.
    const bool cut = choice.reason == ir::FinishReason::kLength && &call == &choice.calls.back();
    writer.value(call.arguments.empty() && !cut ? std::string("{}") : call.arguments);
    writer.end_object().end_object();
  }
  writer.end_array();
}

void write_choice(std::size_t index, const Choice& choice, bool logprobs, json::Writer& writer) {
  writer.begin_object().member("index", index);
  writer.key("message").begin_object().member("role", "assistant").key("content");
  // null beside calls, as OpenAI has it; an answer without anything is the empty string.
  (choice.has_text || choice.calls.empty()) ? writer.value(choice.text) : writer.null();
  writer.key("refusal").null();
  if (!choice.reasoning.empty()) writer.member("reasoning_content", choice.reasoning);
  if (!choice.calls.empty()) write_calls(choice, writer);
  writer.end_object();
  writer.key("logprobs");
  if (logprobs) {
    writer.begin_object().key("content").begin_array();
    if (!choice.logprobs.empty()) writer.raw(choice.logprobs);
    writer.end_array().key("refusal").null().end_object();
  } else {
    writer.null();
  }
  writer.member("finish_reason", chat_finish_reason(choice.reason, !choice.calls.empty()));
  writer.end_object();
}

class ChatWhole final : public Encoder {
 public:
  explicit ChatWhole(const AnswerHead& head) : head_(head), choices_(head.answers), usage_(head.choices) {}

  void set_model(std::string_view name) override { head_.model = name; }
  void set_extension(std::string json) override { extension_ = std::move(json); }
  void keep_alive(std::string&) override {}

  void add(std::uint32_t index, const ir::Event& event, std::string& out) override {
    Choice& choice = choices_[index];
    if (const auto* start = std::get_if<ir::BlockStart>(&event)) {
      choice.kind = start->kind;
      if (start->kind == ir::BlockKind::kToolCall)
        choice.calls.push_back({start->call_id, start->name, {}, kind_of(start->name)});
      choice.has_text = choice.has_text || start->kind == ir::BlockKind::kText;
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      choice.target() += delta->text;
      append_chat_logprobs(delta->logprobs, choice.logprobs);
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      choice.reason = end->reason;
      usage_.add(index, end->usage);
      if (++ended_ == choices_.size()) write(out);
    }
  }

 private:
  ir::ToolKind kind_of(const std::string& name) const {
    const bool custom = std::ranges::find(head_.custom_tools, name) != head_.custom_tools.end();
    return custom ? ir::ToolKind::kCustom : ir::ToolKind::kFunction;
  }

  void write(std::string& out) const {
    json::Writer writer(out);
    writer.begin_object();
    writer.member("id", "chatcmpl-" + hex64(head_.id.value)).member("object", "chat.completion");
    writer.member("created", head_.created.count()).member("model", head_.model);
    writer.key("choices").begin_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) write_choice(i, choices_[i], head_.logprobs, writer);
    writer.end_array();
    std::string usage;
    append_openai_usage(usage_.total(), usage);
    writer.key("usage").raw(usage);
    if (!extension_.empty()) writer.key("nvext").raw(extension_);
    writer.end_object();
  }

  AnswerHead head_;
  std::vector<Choice> choices_;
  std::size_t ended_ = 0;
  ir::UsageSum usage_;
  std::string extension_;
};

}  // namespace

std::unique_ptr<Encoder> make_chat_whole(const AnswerHead& head) { return std::make_unique<ChatWhole>(head); }

}  // namespace kvern::api
