#include "api/chat/chat.h"

#include "api/chat/chat_messages.h"
#include "api/chat/chat_options.h"
#include "api/chat/chat_stream.h"
#include "api/chat/chat_tools.h"
#include "api/chat/chat_whole.h"
#include "api/generation_fields.h"
#include "api/openai_dialect.h"

namespace kvern::api {
namespace {

/// `logprobs` switches them on, `top_logprobs` says how many alternatives come with each.
void decode_logprobs(const Fields& fields, std::optional<std::uint32_t>& out) {
  Decoding& decoding = fields.decoding();
  bool wanted = false;
  fields.boolean("logprobs", wanted);
  std::uint32_t alternatives = 0;
  fields.integer("top_logprobs", 0, static_cast<std::int64_t>(decoding.limits()[Limit::kTopLogprobs]), alternatives);
  if (wanted) {
    out = alternatives;
  } else if (alternatives > 0) {
    decoding.fail(fields.path("top_logprobs"), "goes only with `logprobs`: true");
  }
}

/// What api/unserved_fields.h cannot say in a row.
void refuse_unserved(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  if (const auto modalities = fields.array("modalities")) {
    const Path path = fields.path("modalities");
    std::size_t index = 0;
    for (const auto& child : modalities->children()) {
      if (!child.value.is(json::Kind::kString) || child.value.string() != "text")
        decoding.unsupported(element_of(path, index), "only text");
      ++index;
    }
  }
}

void decode_own(const Fields& fields, Call& call) {
  ir::Request& request = call.request;
  CacheMarks marks(CacheMarks::Excess::kClip);
  request.tools = decode_chat_tools(fields, marks);  // first: they stand first in prompts
  request.tool_choice = decode_chat_tool_choice(fields, request.tools);
  request.prompt = decode_chat_messages(fields, marks);
  request.response_format = decode_chat_format(fields);
  request.reasoning = decode_chat_reasoning(fields);
  decode_logprobs(fields, request.logprobs);
  decode_template_options(fields, request.template_options);
  refuse_unserved(fields);
  call.left_out = marks.take_clipped();
}

}  // namespace

std::unique_ptr<const Dialect> make_chat_dialect(const Limits& limits) {
  return make_openai_dialect(limits, {kOnChat, decode_own, make_chat_stream, make_chat_whole});
}

}  // namespace kvern::api
