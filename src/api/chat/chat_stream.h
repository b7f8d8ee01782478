// Chat answers as server-sent events: `chat.completion.chunk` objects, an error object where the stream fails half-way.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/openai_answer.h"

namespace kvern::api {

/// Chunks in OpenAI's order for each choice: the role first, then pieces, the finish reason last; after the last
/// choice, with `include_usage`, one more chunk without choices. Log probabilities stand in the chunk of the text they
/// belong to; tokens of reasoning and of calls have none. Cost per piece: copies of prepared texts around the escaped
/// one; no allocation once `out` is large enough.
std::unique_ptr<Encoder> make_chat_stream(const AnswerHead& head, bool include_usage);

/// "tool_calls" iff there were calls, "length" on a cut.
std::string_view chat_finish_reason(ir::FinishReason reason, bool has_calls) noexcept;

}  // namespace kvern::api
