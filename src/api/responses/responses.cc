#include "api/responses/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/body.h"
#include "api/generation_fields.h"
#include "api/openai_error.h"
#include "api/responses/compaction.h"
#include "api/responses/input_items.h"
#include "api/responses/response_ids.h"
#include "api/responses/responses_input.h"
#include "api/responses/responses_stream.h"
#include "api/responses/responses_tools.h"
#include "api/unserved_fields.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// What a model is told before all else: `instructions`, as the first message.
void put_instructions(const Fields& fields, std::vector<ir::Message>& messages) {
  std::string text;
  if (!fields.string("instructions", text) || text.empty()) return;
  messages.insert(messages.begin(), {ir::Role::kSystem, {}, {{ir::Text{std::move(text)}, std::nullopt}}});
}

/// One decoding of one body.
class ResponsesDecoder {
 public:
  ResponsesDecoder(const Fields& fields, const Limits& limits, const ResponsesOptions& options,
                   const DecodeContext& context, const ResponsesHistory* history)
      : fields_(fields), options_(options), context_(context), known_(history != nullptr) {
    static const ResponsesHistory kNone;
    items_.emplace(known_ ? *history : kNone, limits);
  }

  ResponsesCall decode() {
    begin();
    ir::Request& request = out_.call.request;
    out_.call.stream = decode_stream_options(fields_).stream;
    ResponsesTools tools = decode_responses_tools(fields_, &marks_);
    std::string choice_echo;
    request.tool_choice = decode_responses_tool_choice(fields_, tools, choice_echo);
    take_input(tools.names);
    decode_sampling(fields_, request.sampling);
    decode_stopping(fields_, request.stopping);
    decode_responses_options(fields_, request);
    check_labels(fields_);
    refuse_unserved_fields(fields_, kOnResponses);
    request.tools = std::move(tools.tools);
    request.tool_namespaces = std::move(tools.namespaces);
    out_.call.left_out.insert(out_.call.left_out.begin(), tools.left_out.begin(), tools.left_out.end());
    decode_common();
    if (fields_.decoding().failed() || !out_.needs.empty()) return std::move(out_);

    if (out_.state.store) out_.input = items_to_store(fields_, context_.id, *items_);
    ResponsePlan plan = this->plan();
    plan.echo = echo_of(fields_, out_.state, tools.echo, choice_echo);
    plan.tools = std::move(tools.names);
    // What can be followed later is made as events, however it was asked for.
    const bool as_events = out_.call.stream || out_.state.background;
    auto encoder = as_events ? make_responses_stream(std::move(plan)) : make_responses_whole(std::move(plan));
    out_.encoder = encoder.get();
    out_.call.encoder = std::move(encoder);
    return std::move(out_);
  }

  ResponsesCall compact() {
    begin();
    ir::Request& request = out_.call.request;
    (void)fields_.required("model");
    out_.state.store = false;
    out_.state.background = false;
    out_.state.compacts = true;
    ToolNames names;
    take_input(names);
    decode_common();
    if (fields_.decoding().failed() || !out_.needs.empty()) return std::move(out_);
    request.tool_choice.kind = ir::ToolChoice::Kind::kNone;
    std::get<std::vector<ir::Message>>(request.prompt).push_back(compaction_request());
    std::string kept = compaction_kept(items_->conversation(), items_to_store(fields_, context_.id, *items_));
    auto encoder = make_compaction({plan(), compaction_purpose(context_.tenant), std::move(kept)});
    out_.encoder = encoder.get();
    out_.call.encoder = std::move(encoder);
    return std::move(out_);
  }

 private:
  void begin() {
    out_.call.request.id = context_.id;
    fields_.string("model", Limit::kModelBytes, out_.call.request.model);
    out_.state = decode_responses_state(fields_, options_.stores);
    if (!out_.state.previous) return;
    if (!known_) out_.needs.previous = out_.state.previous;
    if (known_ && items_->conversation().empty()) previous_not_found(fields_);
  }

  void take_input(ToolNames& names) {
    ResponsesInput input =
        decode_responses_input(fields_, options_.seal, context_.tenant, known_ ? &*items_ : nullptr, names, marks_);
    put_instructions(fields_, input.messages);
    out_.call.request.prompt = std::move(input.messages);
    out_.call.left_out = std::move(input.left_out);
    out_.needs.references = std::move(input.references);
  }

  void decode_common() {
    decode_template_options(fields_, out_.call.request.template_options);
    decode_hints(fields_, out_.call.request, out_.call.left_out);
    std::ranges::move(marks_.take_clipped(), std::back_inserter(out_.call.left_out));
  }

  ResponsePlan plan() const {
    return {context_.id,
            context_.created,
            out_.call.request.model,
            {},
            {},
            options_.reasoning_events,
            &options_.seal,
            reasoning_purpose(context_.tenant),
            &options_.clock,
            out_.state.background};
  }

  const Fields& fields_;
  const ResponsesOptions& options_;
  const DecodeContext& context_;
  const bool known_;  // what is needed is there, as far as it exists
  std::optional<HistoryItems> items_;
  CacheMarks marks_{CacheMarks::Excess::kClip};
  ResponsesCall out_;
};

class ResponsesDialectImpl final : public ResponsesDialect {
 public:
  ResponsesDialectImpl(const Limits& limits, const ResponsesOptions& options) : limits_(limits), options_(options) {}

  Result<Call> decode(std::string_view body, const DecodeContext& context) const override {
    static const ResponsesHistory kNone;
    auto decoded = decode_call(body, context, &kNone);
    if (!decoded) return std::move(decoded).error();
    return std::move(decoded->call);
  }

  Result<ResponsesCall> decode_call(std::string_view body, const DecodeContext& context,
                                    const ResponsesHistory* history) const override {
    return decode_by(&ResponsesDecoder::decode, body, context, history);
  }

  Result<ResponsesCall> decode_compact(std::string_view body, const DecodeContext& context,
                                       const ResponsesHistory* history) const override {
    return decode_by(&ResponsesDecoder::compact, body, context, history);
  }

  /// What others call `messages` is `input` here.
  Reply error(const Error& error, RequestId) const override {
    constexpr std::string_view kTheirs = "messages";
    if (error.param != kTheirs) return openai_error(error);
    Error own = error;
    own.param = "input";
    if (own.message.starts_with(kTheirs)) own.message.replace(0, kTheirs.size(), own.param);
    return openai_error(own);
  }

 private:
  Result<ResponsesCall> decode_by(ResponsesCall (ResponsesDecoder::*how)(), std::string_view body,
                                  const DecodeContext& context, const ResponsesHistory* history) const {
    auto document = read_object(body, limits_);
    if (!document) return std::move(document).error();
    Decoding decoding(limits_);
    const Path top;
    Asked asked;
    const Fields fields((*document)->root(), top, decoding, &asked);
    ResponsesDecoder decoder(fields, limits_, options_, context, history);
    ResponsesCall call = (decoder.*how)();
    if (decoding.failed()) return decoding.fault();
    asked.list_others((*document)->root(), "", call.call.left_out);
    return call;
  }

  const Limits limits_;
  const ResponsesOptions options_;
};

}  // namespace

std::unique_ptr<const ResponsesDialect> make_responses_dialect(const Limits& limits, const ResponsesOptions& options) {
  return std::make_unique<ResponsesDialectImpl>(limits, options);
}

std::string final_event(std::string_view response, std::uint64_t sequence) {
  // What was stored was within the limits of its time.
  const auto document = json::Document::parse(response, {1U << 16U, 1U << 26U, 1U << 20U});
  std::string status;
  if (document && (*document)->root().is(json::Kind::kObject)) {
    const auto member = (*document)->root().find("status");
    if (member && member->is(json::Kind::kString)) status = member->string();
  }
  const std::string_view event = status == "completed" || status == "incomplete" ? status : std::string_view("failed");
  return fmt::format(
      "event: response.{0}\ndata: {{\"type\":\"response.{0}\",\"response\":{1},\"sequence_number\":{2}}}\n\n", event,
      response, sequence);
}

std::string render_deleted(RequestId id) {
  std::string out;
  json::Writer(out)
      .begin_object()
      .member("id", response_name(id))
      .member("object", "response")
      .member("deleted", true)
      .end_object();
  return out;
}

}  // namespace kvern::api
