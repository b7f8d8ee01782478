// How a chat's model is to think, and what its answer is to be.
#pragma once

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// `reasoning_effort` as OpenAI has it, `enable_thinking` as Qwen's servers do, `thinking` as DeepSeek's and GLM's do.
ir::Reasoning decode_chat_reasoning(const Fields& fields);
/// `response_format`: carried in the ir; nothing enforces it yet.
ir::ResponseFormat decode_chat_format(const Fields& fields);

}  // namespace kvern::api
