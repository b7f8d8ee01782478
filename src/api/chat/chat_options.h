// What a chat body says about its answer and no other OpenAI endpoint says alike.
#pragma once

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// `logprobs` with `top_logprobs`, `response_format`, `reasoning_effort`, `verbosity`. The format is carried for the
/// parser; nothing enforces it here.
void decode_chat_options(const Fields& fields, ir::Request& request);

}  // namespace kvern::api
