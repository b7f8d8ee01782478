#include "api/completions/completions.h"

#include <fmt/format.h>

#include "api/body.h"
#include "api/completions/completions_encode.h"
#include "api/generation_fields.h"
#include "api/openai_error.h"

namespace kvern::api {
namespace {

void decode_token_prompt(json::Value array, const Path& path, Decoding& decoding, ir::Prompt& out) {
  Tokens tokens;
  decode_token_ids(array, Limit::kPromptTokens, path, decoding, tokens);
  out = std::move(tokens);
}

/// A string, an array of token ids, or an array with one of either.
void decode_prompt(const Fields& fields, ir::Prompt& out) {
  if (!fields.required("prompt")) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("prompt");
  const json::Value prompt = *fields.find("prompt");
  if (prompt.is(json::Kind::kString)) {
    out = prompt.string();
    return;
  }
  if (!prompt.is(json::Kind::kArray))
    return decoding.wrong_type(path, "a string or an array of token ids", prompt.kind());
  const std::uint32_t count = prompt.size();
  if (count == 0) return decoding.fail(path, "must not be empty");
  const json::Value first = (*prompt.children().begin()).value;
  const bool list = first.is(json::Kind::kString) || first.is(json::Kind::kArray);
  if (list && count > 1) return decoding.unsupported(path, "only one prompt a request");
  if (!list) return decode_token_prompt(prompt, path, decoding, out);
  const Path place = element_of(path, 0);
  if (first.is(json::Kind::kString)) {
    out = first.string();
  } else if (first.size() == 0) {
    decoding.fail(place, "must not be empty");
  } else {
    decode_token_prompt(first, place, decoding, out);
  }
}

void refuse_unserved(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  const auto choices = static_cast<std::int64_t>(decoding.limits()[Limit::kChoices]);
  std::int64_t count = 0;
  for (const std::string_view name : {"n", "best_of"}) {
    if (fields.integer(name, 1, choices, count) && count != 1)
      decoding.unsupported(fields.path(name), "only one choice a request");
  }
  // Here 0 asks for the log probability of the chosen token.
  if (fields.integer("logprobs", 0, static_cast<std::int64_t>(decoding.limits()[Limit::kTopLogprobs]), count))
    decoding.unsupported(fields.path("logprobs"), "no log probabilities");
  bool echo = false;
  if (fields.boolean("echo", echo) && echo) decoding.unsupported(fields.path("echo"), "the prompt is not repeated");
  std::string suffix;
  if (fields.string("suffix", suffix) && !suffix.empty())
    decoding.unsupported(fields.path("suffix"), "text is only continued, not filled in");
  if (const auto bias = fields.object("logit_bias"); bias && bias->size() > 0)
    decoding.unsupported(fields.path("logit_bias"), "no bias on tokens");
  refuse_unserved_extras(fields);
}

class CompletionsDialect final : public Dialect {
 public:
  explicit CompletionsDialect(const Limits& limits) : limits_(limits) {}

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
    decode_prompt(fields, request.prompt);
    decode_sampling(fields, request.sampling);
    decode_stopping(fields, request.stopping);
    decode_hints(fields, request.hints);
    check_labels(fields);
    refuse_unserved(fields);
    if (decoding.failed()) return decoding.fault();

    call.stream = options.stream;
    const CompletionHead head{context.id, context.created, request.model};
    if (options.stream) {
      call.encoder = make_completion_stream(head, options.include_usage);
    } else {
      call.encoder = make_completion_whole(head);
    }
    return call;
  }

  Reply error(const Error& error, RequestId) const override { return openai_error(error); }

 private:
  Limits limits_;
};

}  // namespace

std::unique_ptr<const Dialect> make_completions_dialect(const Limits& limits) {
  return std::make_unique<CompletionsDialect>(limits);
}

}  // namespace kvern::api
