#include "api/messages/messages.h"

#include <fmt/format.h>

#include "api/body.h"
#include "api/generation_fields.h"
#include "api/messages/messages_content.h"
#include "api/messages/messages_error.h"
#include "api/messages/messages_options.h"
#include "api/messages/messages_stream.h"
#include "api/messages/messages_whole.h"
#include "api/unserved_fields.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// A mark on the whole request stands for one on its last block, unless that has its own.
void decode_request_mark(const Fields& fields, CacheMarks& marks, std::vector<ir::Message>& messages) {
  const auto mark = marks.read(fields);
  if (!mark || messages.empty() || messages.back().blocks.empty()) return;
  auto& last = messages.back().blocks.back().cache;
  if (!last) last = mark;
}

/// `metadata` and what was taken out of the prompt, for the log.
void decode_metadata(const Fields& fields, ir::Request& request, std::string_view preamble) {
  check_labels(fields);
  if (const auto metadata = fields.object("metadata"); metadata && metadata->size() > 0)
    request.metadata = metadata->raw();
  if (preamble.empty()) return;
  if (!request.metadata.empty()) request.metadata += '\n';
  request.metadata += preamble.substr(0, preamble.size() - 1);  // without the last line break
}

/// Everything that decides what the prompt is; what both endpoints read.
void decode_prompt(const Fields& fields, ir::Request& request) {
  Decoding& decoding = fields.decoding();
  fields.string("model", Limit::kModelBytes, request.model);
  CacheMarks marks;
  std::string preamble;
  request.tools = decode_messages_tools(fields, marks);
  request.tool_choice = decode_messages_tool_choice(fields, request.tools);
  auto messages = decode_messages(fields, marks, preamble);
  decode_request_mark(fields, marks, messages);
  request.prompt = std::move(messages);
  request.reasoning = decode_messages_reasoning(fields);
  request.response_format = decode_messages_format(fields);
  decode_template_options(fields, request.template_options);
  decode_metadata(fields, request, preamble);
  if (const auto servers = fields.array("mcp_servers"); servers && servers->size() > 0)
    decoding.unsupported(fields.path("mcp_servers"), "no address is called; give the tools themselves");
}

/// What an answer needs beside its prompt.
void check_answerable(const Fields& fields, const ir::Request& request) {
  Decoding& decoding = fields.decoding();
  fields.required("max_tokens");
  const auto& budget = request.reasoning.budget_tokens;
  // With tools the budget spans the thinking of all their turns and may be larger than one answer.
  if (budget && request.stopping.max_tokens && *budget >= *request.stopping.max_tokens && request.tools.empty()) {
    const Path path = fields.path("thinking");
    decoding.fail(member_of(path, "budget_tokens"),
                  fmt::format("({}) must be below `max_tokens` ({})", *budget, *request.stopping.max_tokens));
  }
  const auto& messages = std::get<std::vector<ir::Message>>(request.prompt);
  if (!messages.empty() && messages.back().role == ir::Role::kAssistant)
    decoding.unsupported(fields.path("messages"),
                         "an answer always begins a new message, so the last one must not be "
                         "the assistant's");
}

class MessagesDialect final : public Dialect {
 public:
  explicit MessagesDialect(const Limits& limits) : limits_(limits) {}

  Result<Call> decode(std::string_view body, const DecodeContext& context) const override {
    auto document = read_object(body, limits_);
    if (!document) return std::move(document).error();
    Decoding decoding(limits_);
    const Path top;
    Asked asked;
    const Fields fields((*document)->root(), top, decoding, &asked);

    Call call;
    ir::Request& request = call.request;
    request.id = context.id;
    fields.boolean("stream", call.stream);
    decode_prompt(fields, request);
    decode_messages_sampling(fields, request.sampling);
    decode_messages_stopping(fields, request.stopping);
    check_answerable(fields, request);
    refuse_unserved_fields(fields, kOnMessages);
    decode_hints(fields, request, call.left_out);
    if (decoding.failed()) return decoding.fault();
    asked.list_others((*document)->root(), "", call.left_out);

    const MessageHead head{context.id, request.model, request.reasoning.hidden};
    call.encoder = call.stream ? make_messages_stream(head) : make_messages_whole(head);
    return call;
  }

  Reply error(const Error& error, RequestId id) const override { return messages_error(error, id); }
  HeaderList headers(RequestId id) const override { return {{"request-id", to_string(id)}}; }

 private:
  const Limits limits_;
};

}  // namespace

std::unique_ptr<const Dialect> make_messages_dialect(const Limits& limits) {
  return std::make_unique<MessagesDialect>(limits);
}

Result<ir::Request> decode_count_tokens(std::string_view body, const Limits& limits, RequestId id) {
  auto document = read_object(body, limits);
  if (!document) return std::move(document).error();
  Decoding decoding(limits);
  const Path top;
  ir::Request request;
  request.id = id;
  decode_prompt(Fields((*document)->root(), top, decoding), request);
  if (decoding.failed()) return decoding.fault();
  return request;
}

std::string render_count_tokens(std::size_t tokens) {
  std::string out;
  json::Writer(out).begin_object().member("input_tokens", tokens).end_object();
  return out;
}

}  // namespace kvern::api
