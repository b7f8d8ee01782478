// Completion answers: `text_completion` objects, one a piece or one for all.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/openai_answer.h"

namespace kvern::api {

/// One event a piece, the finish reason in the last of each choice; after the last choice, with `include_usage`, one
/// more without choices. Log probabilities stand in the event of the text they belong to.
std::unique_ptr<Encoder> make_completion_stream(const AnswerHead& head, bool include_usage);
/// One document at the last choice's End. A Failure writes nothing.
std::unique_ptr<Encoder> make_completion_whole(const AnswerHead& head);

}  // namespace kvern::api
