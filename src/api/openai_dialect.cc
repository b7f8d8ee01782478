#include "api/openai_dialect.h"

#include <utility>

#include "api/body.h"
#include "api/generation_fields.h"
#include "api/openai_error.h"

namespace kvern::api {
namespace {

class OpenaiDialect final : public Dialect {
 public:
  OpenaiDialect(const Limits& limits, const OpenaiEndpoint& endpoint) : limits_(limits), endpoint_(endpoint) {}

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
    const StreamOptions options = decode_stream_options(fields);
    decode_choices(fields, request.choices);
    endpoint_.decode_own(fields, call);
    decode_sampling(fields, request.sampling);
    decode_stopping(fields, request.stopping);
    check_labels(fields);
    refuse_unserved_fields(fields, endpoint_.which);
    decode_hints(fields, request, call.left_out);
    if (decoding.failed()) return decoding.fault();
    asked.list_others((*document)->root(), "", call.left_out);

    call.stream = options.stream;
    AnswerHead head{context.id,      context.created,   request.model,
                    request.choices, request.answers(), request.logprobs.has_value()};
    for (const ir::Tool& tool : request.tools) {
      if (tool.kind == ir::ToolKind::kCustom) head.custom_tools.push_back(tool.name);
    }
    call.encoder = call.stream ? endpoint_.make_stream(head, options.include_usage) : endpoint_.make_whole(head);
    return call;
  }

  Reply error(const Error& error, RequestId) const override { return openai_error(error); }

 private:
  const Limits limits_;
  const OpenaiEndpoint endpoint_;
};

}  // namespace

std::unique_ptr<const Dialect> make_openai_dialect(const Limits& limits, const OpenaiEndpoint& endpoint) {
  return std::make_unique<OpenaiDialect>(limits, endpoint);
}

}  // namespace kvern::api
