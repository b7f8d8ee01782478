// Messages answers as one document.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/messages/messages_answer.h"

namespace kvern::api {

/// Collects blocks as they come and writes the document at End. `input` is an object whatever the model wrote:
/// arguments that are none stand in it as text, under kInvalidJsonKey, and come back from there as they were. A Failure
/// writes nothing: nothing was sent, so the caller answers with Dialect::error.
std::unique_ptr<Encoder> make_messages_whole(const MessageHead& head);

}  // namespace kvern::api
