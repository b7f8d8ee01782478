#include "api/completions/completions.h"

#include <utility>

#include "api/completions/completions_encode.h"
#include "api/generation_fields.h"
#include "api/openai_dialect.h"

namespace kvern::api {
namespace {

Tokens decode_token_prompt(json::Value array, const Path& path, Decoding& decoding) {
  Tokens tokens;
  if (array.size() == 0) decoding.fail(path, "must not be empty");
  decode_token_ids(array, Limit::kPromptTokens, path, decoding, tokens);
  return tokens;
}

/// A prompt in a list of them.
ir::Prompt decode_listed(json::Value value, const Path& path, Decoding& decoding) {
  if (value.is(json::Kind::kString)) return value.string();
  if (value.is(json::Kind::kArray)) return decode_token_prompt(value, path, decoding);
  decoding.wrong_type(path, "a string or an array of token ids", value.kind());
  return {};
}

/// A string, an array of token ids, or an array of several of either.
void decode_prompt(const Fields& fields, ir::Request& request) {
  if (!fields.required("prompt")) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("prompt");
  const json::Value prompt = *fields.find("prompt");
  if (prompt.is(json::Kind::kString)) {
    request.prompt = prompt.string();
    return;
  }
  if (!prompt.is(json::Kind::kArray))
    return decoding.wrong_type(path, "a string or an array of token ids", prompt.kind());
  const std::uint32_t count = prompt.size();
  const bool list = count > 0 && !(*prompt.children().begin()).value.is(json::Kind::kNumber);
  if (!list) {
    request.prompt = decode_token_prompt(prompt, path, decoding);
    return;
  }
  if (!decoding.within(Limit::kChoices, std::uint64_t{count} * request.choices, path)) return;
  std::size_t index = 0;
  for (const auto& child : prompt.children()) {
    if (decoding.failed()) return;
    ir::Prompt one = decode_listed(child.value, element_of(path, index), decoding);
    if (index++ == 0) {
      request.prompt = std::move(one);
    } else {
      request.more_prompts.push_back(std::move(one));
    }
  }
}

/// What api/unserved_fields.h cannot say in a row.
void refuse_unserved(const Fields& fields, std::uint32_t choices) {
  Decoding& decoding = fields.decoding();
  std::uint32_t candidates = choices;
  if (fields.integer("best_of", 1, static_cast<std::int64_t>(decoding.limits()[Limit::kChoices]), candidates) &&
      candidates != choices)
    decoding.unsupported(fields.path("best_of"), "every answer that is drawn is given; ask for them with `n`");
}

void decode_own(const Fields& fields, Call& call) {
  ir::Request& request = call.request;
  decode_prompt(fields, request);
  // Here 0 asks for the log probability of the chosen token.
  std::uint32_t alternatives = 0;
  if (fields.integer("logprobs", 0, static_cast<std::int64_t>(fields.decoding().limits()[Limit::kTopLogprobs]),
                     alternatives))
    request.logprobs = alternatives;
  check_response_format(fields);
  refuse_unserved(fields, request.choices);
}

}  // namespace

std::unique_ptr<const Dialect> make_completions_dialect(const Limits& limits) {
  return make_openai_dialect(limits, {kOnCompletions, decode_own, make_completion_stream, make_completion_whole});
}

}  // namespace kvern::api
