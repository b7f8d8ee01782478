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

void decode_own(const Fields& fields, ir::Request& request) {
  request.prompt = decode_chat_messages(fields);
  request.tools = decode_chat_tools(fields);
  request.tool_choice = decode_chat_tool_choice(fields, request.tools);
  decode_chat_options(fields, request);
  decode_template_options(fields, request.template_options);
  refuse_unserved(fields);
}

}  // namespace

std::unique_ptr<const Dialect> make_chat_dialect(const Limits& limits) {
  return make_openai_dialect(limits, {kOnChat, decode_own, make_chat_stream, make_chat_whole});
}

}  // namespace kvern::api
