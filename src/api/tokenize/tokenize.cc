#include "api/tokenize/tokenize.h"

#include "api/body.h"
#include "api/chat/chat_messages.h"
#include "api/chat/chat_tools.h"
#include "api/fields.h"
#include "api/generation_fields.h"
#include "api/openai_logprobs.h"
#include "base/json_writer.h"

namespace kvern::api {

Result<TokenizeCall> decode_tokenize(std::string_view body, const Limits& limits) {
  auto document = read_object(body, limits);
  if (!document) return std::move(document).error();
  Decoding decoding(limits);
  const Path top;
  const Fields fields((*document)->root(), top, decoding);

  TokenizeCall call;
  fields.string("model", Limit::kModelBytes, call.request.model);
  const bool text = fields.has("prompt");
  if (text && fields.has("messages")) {
    decoding.fail(fields.path("prompt"), "and `messages` exclude each other");
  } else if (text) {
    std::string prompt;
    fields.string("prompt", prompt);
    call.request.prompt = std::move(prompt);
  } else if (fields.has("messages")) {
    CacheMarks marks(CacheMarks::Excess::kClip);
    call.request.tools = decode_chat_tools(fields, marks);
    call.request.prompt = decode_chat_messages(fields, marks);
  } else {
    decoding.fail(fields.path("prompt"), "or `messages` is missing");
  }
  decode_template_options(fields, call.request.template_options);
  bool flag = false;
  if (fields.boolean("add_special_tokens", flag)) call.add_special_tokens = flag;
  fields.boolean("return_token_strs", call.return_token_strs);
  flag = true;
  if (fields.boolean("add_generation_prompt", flag) && !flag)
    decoding.unsupported(fields.path("add_generation_prompt"), "messages are rendered as they are answered");
  flag = false;
  if (fields.boolean("continue_final_message", flag) && flag)
    decoding.unsupported(fields.path("continue_final_message"), "messages are rendered as they are answered");
  if (decoding.failed()) return decoding.fault();
  return call;
}

std::string render_tokenize(std::span<const TokenId> tokens, std::uint32_t max_model_len,
                            const std::vector<std::string>* token_strs) {
  std::string out;
  out.reserve(64 + tokens.size() * 7);
  json::Writer writer(out);
  writer.begin_object().member("count", tokens.size()).member("max_model_len", max_model_len);
  writer.key("tokens").begin_array();
  for (const TokenId token : tokens) writer.value(token);
  writer.end_array().key("token_strs");
  if (token_strs == nullptr) {
    writer.null();
  } else {
    writer.begin_array();
    for (const std::string& bytes : *token_strs) {
      std::string text;
      append_token_text(bytes, text);
      writer.raw(text);
    }
    writer.end_array();
  }
  writer.end_object();
  return out;
}

Result<DetokenizeCall> decode_detokenize(std::string_view body, const Limits& limits) {
  auto document = read_object(body, limits);
  if (!document) return std::move(document).error();
  Decoding decoding(limits);
  const Path top;
  const Fields fields((*document)->root(), top, decoding);

  DetokenizeCall call;
  fields.string("model", Limit::kModelBytes, call.model);
  if (fields.required("tokens")) {
    if (const auto tokens = fields.array("tokens"))
      decode_token_ids(*tokens, Limit::kPromptTokens, fields.path("tokens"), decoding, call.tokens);
  }
  if (decoding.failed()) return decoding.fault();
  return call;
}

std::string render_detokenize(std::string_view text) {
  std::string out;
  json::Writer(out).begin_object().member("prompt", text).end_object();
  return out;
}

}  // namespace kvern::api
