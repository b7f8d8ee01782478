#include "api/responses/responses.h"

#include <utility>

#include "api/body.h"
#include "api/generation_fields.h"
#include "api/openai_error.h"
#include "api/responses/responses_fields.h"
#include "api/responses/responses_input.h"
#include "api/responses/responses_stream.h"
#include "api/responses/responses_tools.h"
#include "api/unserved_fields.h"

namespace kvern::api {
namespace {

/// What a model is told before all else: `instructions`, as the first message.
void put_instructions(const Fields& fields, std::vector<ir::Message>& messages) {
  std::string text;
  if (!fields.string("instructions", text) || text.empty()) return;
  messages.insert(messages.begin(), {ir::Role::kSystem, {}, {{ir::Text{std::move(text)}, std::nullopt}}});
}

class ResponsesDialect final : public Dialect {
 public:
  ResponsesDialect(const Limits& limits, const ResponsesOptions& options) : limits_(limits), options_(options) {}

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
    fields.string("model", Limit::kModelBytes, request.model);
    call.stream = decode_stream_options(fields).stream;
    refuse_state(fields);
    ResponsesTools tools = decode_responses_tools(fields);
    std::string choice_echo;
    request.tool_choice = decode_responses_tool_choice(fields, tools, choice_echo);
    const std::string purpose = "responses reasoning of " + std::string(context.tenant);
    ResponsesInput input = decode_responses_input(fields, options_.seal, purpose, tools.names);
    put_instructions(fields, input.messages);
    decode_sampling(fields, request.sampling);
    decode_stopping(fields, request.stopping);
    decode_responses_options(fields, request);
    check_labels(fields);
    decode_template_options(fields, request.template_options);
    refuse_unserved_fields(fields, kOnResponses);
    request.prompt = std::move(input.messages);
    request.tools = std::move(tools.tools);
    request.tool_namespaces = std::move(tools.namespaces);
    call.left_out = std::move(tools.left_out);
    decode_hints(fields, request, call.left_out);
    if (decoding.failed()) return decoding.fault();
    call.left_out.insert(call.left_out.end(), input.left_out.begin(), input.left_out.end());
    ResponsePlan plan{context.id,
                      context.created,
                      request.model,
                      echo_of(fields, tools.echo, choice_echo),
                      std::move(tools.names),
                      options_.reasoning_events,
                      &options_.seal,
                      purpose,
                      &options_.clock};
    asked.list_others((*document)->root(), "", call.left_out);
    call.encoder = call.stream ? make_responses_stream(std::move(plan)) : make_responses_whole(std::move(plan));
    return call;
  }

  Reply error(const Error& error, RequestId) const override { return openai_error(error); }

 private:
  const Limits limits_;
  const ResponsesOptions options_;
};

}  // namespace

std::unique_ptr<const Dialect> make_responses_dialect(const Limits& limits, const ResponsesOptions& options) {
  return std::make_unique<ResponsesDialect>(limits, options);
}

}  // namespace kvern::api
