#include "api/openai_usage.h"

#include "api/answer_extension.h"
#include "base/json_writer.h"

namespace kvern::api {

void append_openai_usage(const ir::Usage& usage, std::string& out) {
  json::Writer writer(out);
  writer.begin_object();
  writer.member("prompt_tokens", usage.prompt_tokens);
  writer.member("completion_tokens", usage.completion_tokens);
  writer.member("total_tokens", std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  writer.key("prompt_tokens_details");
  if (usage.cached_tokens) {
    writer.begin_object().member("cached_tokens", *usage.cached_tokens).end_object();
  } else {
    writer.null();
  }
  writer.key("completion_tokens_details").begin_object();
  writer.member("reasoning_tokens", usage.reasoning_tokens).end_object();
  writer.end_object();
}

void append_stream_end(std::string_view head, bool include_usage, const ir::Usage& usage, std::string_view extension,
                       std::string& out) {
  if (include_usage) {
    out += head;
    out += R"("choices":[],"usage":)";
    append_openai_usage(usage, out);
    append_extension(extension, out);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

}  // namespace kvern::api
