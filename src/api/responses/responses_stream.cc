#include "api/responses/responses_stream.h"

#include <optional>
#include <utility>

#include "api/openai_logprobs.h"
#include "api/responses/output_items.h"
#include "api/responses/response_object.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// The words of the events of one kind of item; empty where it has none.
struct ItemEvents {
  std::string_view part;        // of "response.<part>.added" and ".done"
  std::string_view part_type;   // {"type": ..., "text"} of those
  std::string_view text;        // of "response.<text>.delta" and ".done"
  std::string_view whole;       // the member of ".done" that holds it all
  std::string_view part_index;  // the member that says which part: always 0, a block has one
};

constexpr ItemEvents kMessageEvents{"content_part", "output_text", "output_text", "text", "content_index"};
constexpr ItemEvents kSummaryEvents{"reasoning_summary_part", "summary_text", "reasoning_summary_text", "text",
                                    "summary_index"};
constexpr ItemEvents kReasoningEvents{"content_part", "reasoning_text", "reasoning_text", "text", "content_index"};
constexpr ItemEvents kFunctionEvents{"", "", "function_call_arguments", "arguments", ""};
constexpr ItemEvents kCustomEvents{"", "", "custom_tool_call_input", "input", ""};
constexpr ItemEvents kNoEvents{};

const ItemEvents& events_of(ItemKind kind, ReasoningEvents reasoning) {
  switch (kind) {
    case ItemKind::kMessage: return kMessageEvents;
    case ItemKind::kReasoning: return reasoning == ReasoningEvents::kSummary ? kSummaryEvents : kReasoningEvents;
    case ItemKind::kFunctionCall: return kFunctionEvents;
    case ItemKind::kCustomCall: return kCustomEvents;
    case ItemKind::kToolSearchCall: break;
  }
  return kNoEvents;
}

class ResponsesStream final : public ResponsesEncoder {
 public:
  explicit ResponsesStream(ResponsePlan plan) : plan_(std::move(plan)), items_(plan_) {}

  void set_model(std::string_view name) override { plan_.model = name; }

  void set_extension(std::string json) override { extension_ = std::move(json); }

  void add(std::uint32_t, const ir::Event& event, std::string& out) override {
    // A start that nobody waits for opens nothing yet: what would wait with it for the first token is kilobytes.
    if (std::holds_alternative<ir::Start>(event) && !plan_.background) return;
    if (!opened_) open(out);
    std::visit([&](const auto& e) { on(e, out); }, event);
  }

  void keep_alive(std::string& out) override {
    if (!opened_) return open(out);
    const ResponseState now = state();
    response(status_of(now), now, out);
  }

  void append_object(std::string& out) const override { append_response(plan_, state(), out); }

  void append_failed(const Error& error, std::string& out) const override {
    append_response(plan_, {&items_, nullptr, &error}, out);
  }

  void withdraw(const Error& error, std::string& out) override {
    out.resize(out.size() - end_bytes_);
    --sequence_;
    end_.reset();
    cancelled_ = false;
    fail(error, out);
  }

  void cancel(std::string& out) override {
    if (!opened_) open(out);
    close_item(ItemStatus::kIncomplete, out);
    cancelled_ = true;
    finish(out);
  }

 private:
  ResponseState state() const {
    return {&items_,    end_ ? &*end_ : nullptr,       failure_ ? &*failure_ : nullptr,
            extension_, plan_.background && !started_, cancelled_,
            ended_at_};
  }

  void on(const ir::Start&, std::string& out) {
    if (plan_.background && !started_) {
      started_ = true;
      response("in_progress", state(), out);
    }
  }

  void on(const ir::BlockStart& block, std::string& out) {
    close_item(ItemStatus::kCompleted, out);
    const OutputItem& item = items_.open(block);
    item_open_ = true;
    events_ = &events_of(item.kind, plan_.reasoning_events);
    begin("output_item.added", out);
    out += R"("output_index":)";
    json::append_number(out, items_.index());
    out += R"(,"item":)";
    json::Writer writer(out);
    items_.write_opened(writer);
    end(out);
    place_ = R"("item_id":")" + item.id + R"(","output_index":)" + std::to_string(items_.index());
    if (!events_->part_index.empty()) place_.append(",\"").append(events_->part_index).append("\":0");
    delta_ = R"(.delta",)" + place_ + R"(,"delta":")";
    if (!events_->part.empty()) part("added", {}, out);
  }

  void on(const ir::BlockDelta& delta, std::string& out) { piece(items_.append(delta), delta.logprobs, out); }

  void on(const ir::BlockStop&, std::string& out) { piece(items_.finish(), {}, out); }

  void on(const ir::End& ended, std::string& out) {
    const bool cut = ended.reason == ir::FinishReason::kLength;
    close_item(cut ? ItemStatus::kIncomplete : ItemStatus::kCompleted, out);
    end_ = ended;
    ended_at_ = plan_.clock->unix_time();
    finish(out);
  }

  void on(const ir::Failure& failure, std::string& out) { fail(failure.error, out); }

  void fail(const Error& error, std::string& out) {
    failure_ = error;
    finish(out);
  }

  /// The last event. Of a cancelled response it is `failed`, which every client takes for an end; the status tells.
  void finish(std::string& out) {
    const std::size_t before = out.size();
    const ResponseState last = state();
    response(cancelled_ ? "failed" : status_of(last), last, out);
    end_bytes_ = out.size() - before;
  }

  void open(std::string& out) {
    opened_ = true;
    const ResponseState now = state();
    response("created", now, out);
    response(status_of(now), now, out);
  }

  void piece(std::string_view text, std::span<const ir::TokenLogprob> logprobs, std::string& out) {
    if (text.empty() || events_->text.empty()) return;
    out += "event: response.";
    out += events_->text;
    out += ".delta\ndata: {\"type\":\"response.";
    out += events_->text;
    out += delta_;
    json::append_escaped(out, text);
    out += '"';
    if (events_ == &kMessageEvents) {
      out += R"(,"logprobs":[)";
      append_chat_logprobs(logprobs, out);
      out += ']';
    }
    end(out);
  }

  void close_item(ItemStatus status, std::string& out) {
    if (!item_open_) return;
    item_open_ = false;
    const bool needs_braces = items_.item().text.empty();
    const std::string_view json = items_.close(status);
    if (needs_braces && items_.item().kind == ItemKind::kFunctionCall) piece(items_.item().text, {}, out);
    if (!events_->text.empty()) whole_text(out);
    if (!events_->part.empty()) part("done", items_.item().text, out);
    begin("output_item.done", out);
    out += R"("output_index":)";
    json::append_number(out, items_.index());
    out += R"(,"item":)";
    out += json;
    end(out);
  }

  void whole_text(std::string& out) {
    const OutputItem& item = items_.item();
    begin(std::string(events_->text) + ".done", out);
    out += place_;
    out += ",\"";
    out += events_->whole;
    out += "\":";
    json::append_quoted(out, item.text);
    if (item.kind == ItemKind::kFunctionCall) {
      out += R"(,"name":)";
      json::append_quoted(out, item.name.name);
    }
    if (item.kind == ItemKind::kMessage) {
      out += R"(,"logprobs":[)";
      out += item.logprobs;
      out += ']';
    }
    end(out);
  }

  void part(std::string_view what, std::string_view text, std::string& out) {
    begin(std::string(events_->part) + "." + std::string(what), out);
    out += place_;
    out += R"(,"part":)";
    json::Writer writer(out);
    if (events_ == &kMessageEvents) {
      write_text_part(text, items_.item().logprobs, writer);
    } else {
      writer.begin_object().member("type", events_->part_type).member("text", text).end_object();
    }
    end(out);
  }

  void response(std::string_view event, const ResponseState& state, std::string& out) {
    begin(event, out);
    out += R"("response":)";
    append_response(plan_, state, out);
    end(out);
  }

  /// `event` without its "response.".
  void begin(std::string_view event, std::string& out) const {
    out += "event: response.";
    out += event;
    out += "\ndata: {\"type\":\"response.";
    out += event;
    out += "\",";
  }

  void end(std::string& out) {
    out += R"(,"sequence_number":)";
    json::append_number(out, sequence_++);
    out += "}\n\n";
  }

  ResponsePlan plan_;
  OutputItems items_;
  const ItemEvents* events_ = &kNoEvents;  // of the open item, as are the three below
  std::string place_;                      // its id and index
  std::string delta_;                      // what stands between the event's name and the piece
  bool item_open_ = false;
  bool opened_ = false;
  bool started_ = false;
  bool cancelled_ = false;
  std::optional<ir::End> end_;
  std::chrono::seconds ended_at_{};
  std::optional<Error> failure_;
  std::size_t end_bytes_ = 0;  // of the last event
  std::int64_t sequence_ = 0;
  std::string extension_;
};

}  // namespace

std::unique_ptr<ResponsesEncoder> make_responses_stream(ResponsePlan plan) {
  return std::make_unique<ResponsesStream>(std::move(plan));
}

}  // namespace kvern::api
