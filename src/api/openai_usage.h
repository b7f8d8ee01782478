// OpenAI's usage object, shared by chat and completions.
#pragma once

#include <string>
#include <string_view>

#include "ir/event.h"

namespace kvern::api {

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"}.
/// The prompt's details are null where the engine does not say how much it had cached; 0 is said as 0.
void append_openai_usage(const ir::Usage& usage, std::string& out);

/// How a stream ends: the chunk with the usage when `include_usage`, then [DONE]. `head` is a chunk up to its choices.
void append_stream_end(std::string_view head, bool include_usage, const ir::Usage& usage, std::string_view extension,
                       std::string& out);

}  // namespace kvern::api
