// Messages answers as server-sent events, every one with an `event:` line equal to its type.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/messages/messages_answer.h"

namespace kvern::api {

/// message_start, the blocks one after the other, message_delta with the final usage, message_stop; `error` ends a
/// stream that fails. Arguments leave as they come: they are the model's exact text, so what joins to no JSON object is
/// what the model wrote. A thinking block ends with its signature. Cost per piece: copies around the escaped text.
std::unique_ptr<Encoder> make_messages_stream(const MessageHead& head);

}  // namespace kvern::api
