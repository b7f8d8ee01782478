#include "api/responses/output_items.h"

#include "api/openai_logprobs.h"
#include "base/check.h"
#include "base/json_reader.h"

namespace kvern::api {
namespace {

const char* id_prefix(ItemKind kind) {
  switch (kind) {
    case ItemKind::kMessage: return "msg_";
    case ItemKind::kReasoning: return "rs_";
    case ItemKind::kFunctionCall: return "fc_";
    case ItemKind::kCustomCall: return "ctc_";
    case ItemKind::kToolSearchCall: return "tsc_";
  }
  return "";
}

ItemKind kind_of(const ir::BlockStart& block, const ToolName& name) {
  if (block.kind == ir::BlockKind::kText) return ItemKind::kMessage;
  if (block.kind == ir::BlockKind::kThinking) return ItemKind::kReasoning;
  switch (name.tool) {
    case ItemTool::kCustom: return ItemKind::kCustomCall;
    case ItemTool::kToolSearch: return ItemKind::kToolSearchCall;
    case ItemTool::kFunction: break;
  }
  return ItemKind::kFunctionCall;
}

void write_text_list(std::string_view key, std::string_view type, std::string_view text, json::Writer& writer) {
  writer.key(key).begin_array();
  if (!text.empty()) writer.begin_object().member("type", type).member("text", text).end_object();
  writer.end_array();
}

void write_call_name(const OutputItem& item, json::Writer& writer) {
  writer.member("call_id", item.call_id).member("name", item.name.name);
  if (!item.name.space.empty()) writer.member("namespace", item.name.space);
}

/// What a search is called with is a value, not text; what a model wrote need not be JSON.
void write_search_arguments(std::string_view text, json::Writer& writer) {
  writer.key("arguments");
  std::string value(text);
  json::mend_half_surrogates(value);
  if (text.empty()) {
    writer.begin_object().end_object();
  } else if (json::Document::parse(value, {}).ok()) {
    writer.raw(value);
  } else {
    writer.value(text);
  }
}

}  // namespace

const char* to_string(ItemStatus status) noexcept {
  switch (status) {
    case ItemStatus::kInProgress: return "in_progress";
    case ItemStatus::kCompleted: return "completed";
    case ItemStatus::kIncomplete: return "incomplete";
  }
  return "completed";
}

const OutputItem& OutputItems::open(const ir::BlockStart& block) {
  item_ = {};
  if (block.kind == ir::BlockKind::kToolCall) {
    item_.name = plan_.tools.find(block.name);
    item_.call_id = block.call_id;
  }
  item_.kind = kind_of(block, item_.name);
  item_.id = id_prefix(item_.kind) + hex64(plan_.id.value) + "_" + std::to_string(count_++);
  input_ = {};
  return item_;
}

std::string_view OutputItems::append(const ir::BlockDelta& delta) {
  append_chat_logprobs(delta.logprobs, item_.logprobs);
  if (item_.kind != ItemKind::kCustomCall) {
    item_.text += delta.text;
    return delta.text;
  }
  piece_.clear();
  input_.add(delta.text, piece_);
  item_.text += piece_;
  return piece_;
}

std::string_view OutputItems::finish() {
  piece_.clear();
  if (item_.kind == ItemKind::kCustomCall) input_.finish(piece_);
  item_.text += piece_;
  return piece_;
}

std::string_view OutputItems::close(ItemStatus status) {
  // A call without arguments has "{}"; one that was cut must not look complete.
  if (item_.kind == ItemKind::kFunctionCall && item_.text.empty() && status == ItemStatus::kCompleted) {
    item_.text = "{}";
  }
  if (!closed_.empty()) closed_ += ',';
  const std::size_t at = closed_.size();
  json::Writer writer(closed_);
  write(status, item_.text, writer);
  closed_.shrink_to_fit();
  return std::string_view(closed_).substr(at);
}

void OutputItems::write_opened(json::Writer& writer) const { write(ItemStatus::kInProgress, {}, writer); }

void OutputItems::write_all(json::Writer& writer) const {
  writer.begin_array();
  if (!closed_.empty()) writer.raw(closed_);
  writer.end_array();
}

void OutputItems::write(ItemStatus status, std::string_view text, json::Writer& writer) const {
  const bool opened = status == ItemStatus::kInProgress;
  writer.begin_object().member("id", item_.id);
  switch (item_.kind) {
    case ItemKind::kMessage:
      writer.member("type", "message").member("status", to_string(status)).member("role", "assistant");
      writer.key("content").begin_array();
      if (!opened) write_text_part(text, item_.logprobs, writer);
      writer.end_array();
      break;
    case ItemKind::kReasoning: {
      writer.member("type", "reasoning").member("status", to_string(status));
      const bool summarised = plan_.reasoning_events == ReasoningEvents::kSummary;
      write_text_list("summary", "summary_text", summarised ? text : std::string_view(), writer);
      write_text_list("content", "reasoning_text", text, writer);
      writer.key("encrypted_content");
      opened ? writer.null() : writer.value(plan_.seal->seal(plan_.seal_purpose, text));
      break;
    }
    case ItemKind::kFunctionCall:
      writer.member("type", "function_call").member("status", to_string(status));
      write_call_name(item_, writer);
      writer.member("arguments", text);
      break;
    case ItemKind::kCustomCall:
      writer.member("type", "custom_tool_call").member("status", to_string(status));
      write_call_name(item_, writer);
      writer.member("input", text);
      break;
    case ItemKind::kToolSearchCall:
      writer.member("type", "tool_search_call").member("status", to_string(status));
      writer.member("call_id", item_.call_id).member("execution", "client");
      write_search_arguments(text, writer);
      break;
  }
  writer.end_object();
}

void write_text_part(std::string_view text, std::string_view logprobs, json::Writer& writer) {
  writer.begin_object().member("type", "output_text").member("text", text);
  writer.key("annotations").begin_array().end_array().key("logprobs").begin_array();
  if (!logprobs.empty()) writer.raw(logprobs);
  writer.end_array().end_object();
}

}  // namespace kvern::api
