// Chat answers as one `chat.completion` document.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/openai_answer.h"

namespace kvern::api {

/// Collects pieces as they come and writes the document at the last choice's End. A Failure writes nothing: nothing was
/// sent, so the caller answers with Dialect::error.
std::unique_ptr<Encoder> make_chat_whole(const AnswerHead& head);

}  // namespace kvern::api
