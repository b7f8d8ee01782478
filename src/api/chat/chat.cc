#include "api/chat/chat.h"

#include <fmt/format.h>

#include "api/body.h"
#include "api/chat/chat_messages.h"
#include "api/chat/chat_stream.h"
#include "api/chat/chat_tools.h"
#include "api/chat/chat_whole.h"
#include "api/generation_fields.h"
#include "api/openai_error.h"

namespace kvern::api {
namespace {

/// Fields that change what a client gets and are not served yet: saying so beats an answer that ignores them.
void refuse_unserved(const Fields& fields, bool has_tools) {
  Decoding& decoding = fields.decoding();
  std::int64_t count = 0;
  if (fields.integer("n", 1, static_cast<std::int64_t>(decoding.limits()[Limit::kChoices]), count) && count != 1)
    decoding.unsupported(fields.path("n"), "only one choice a request");
  bool flag = false;
  if (fields.boolean("logprobs", flag) && flag) decoding.unsupported(fields.path("logprobs"), "no log probabilities");
  const auto alternatives = static_cast<std::int64_t>(decoding.limits()[Limit::kTopLogprobs]);
  if (fields.integer("top_logprobs", 0, alternatives, count) && count > 0)
    decoding.unsupported(fields.path("top_logprobs"), "no log probabilities");
  if (const auto bias = fields.object("logit_bias"); bias && bias->size() > 0)
    decoding.unsupported(fields.path("logit_bias"), "no bias on tokens");

  refuse_unserved_extras(fields);
  if (const auto modalities = fields.array("modalities")) {
    const Path path = fields.path("modalities");
    std::size_t index = 0;
    for (const auto& child : modalities->children()) {
      if (!child.value.is(json::Kind::kString) || child.value.string() != "text")
        decoding.unsupported(element_of(path, index), "only text");
      ++index;
    }
  }
  for (const std::string_view name : {"audio", "web_search_options", "functions", "function_call"}) {
    if (fields.has(name))
      decoding.unsupported(fields.path(name),
                           name.starts_with("function") ? "use `tools` and `tool_choice`" : "only text");
  }
  flag = true;
  if (fields.boolean("parallel_tool_calls", flag) && !flag && has_tools)
    decoding.unsupported(fields.path("parallel_tool_calls"), "the model decides how many tools it calls");
  flag = true;
  if (fields.boolean("add_generation_prompt", flag) && !flag)
    decoding.unsupported(fields.path("add_generation_prompt"), "an answer always begins a new message");
  flag = false;
  if (fields.boolean("continue_final_message", flag) && flag)
    decoding.unsupported(fields.path("continue_final_message"), "an answer always begins a new message");
}

class ChatDialect final : public Dialect {
 public:
  explicit ChatDialect(const Limits& limits) : limits_(limits) {}

  Result<Call> decode(std::string_view body, const DecodeContext& context) const override {
    auto document = read_object(body, limits_);
    if (!document) return std::move(document).error();
    Decoding decoding(limits_);
    const Path top;
    const Fields fields((*document)->root(), top, decoding);

    Call call;
    ir::Request& request = call.request;
    request.id = context.id;
    fields.string("model", Limit::kModelBytes, request.model);
    const StreamOptions options = decode_stream_options(fields);
    request.prompt = decode_chat_messages(fields);
    request.tools = decode_chat_tools(fields);
    request.tool_choice = decode_chat_tool_choice(fields, request.tools);
    decode_sampling(fields, request.sampling);
    decode_stopping(fields, request.stopping);
    decode_hints(fields, request.hints);
    decode_template_options(fields, request.template_options);
    check_labels(fields);
    refuse_unserved(fields, !request.tools.empty());
    if (decoding.failed()) return decoding.fault();

    call.stream = options.stream;
    const ChatHead head{context.id, context.created, request.model};
    if (options.stream) {
      call.encoder = make_chat_stream(head, options.include_usage);
    } else {
      call.encoder = make_chat_whole(head);
    }
    return call;
  }

  Reply error(const Error& error, RequestId) const override { return openai_error(error); }

 private:
  Limits limits_;
};

}  // namespace

std::unique_ptr<const Dialect> make_chat_dialect(const Limits& limits) { return std::make_unique<ChatDialect>(limits); }

}  // namespace kvern::api
