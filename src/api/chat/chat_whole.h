// Chat answers as one `chat.completion` document.
#pragma once

#include <memory>

#include "api/chat/chat_stream.h"

namespace kvern::api {

/// Collects pieces as they come and writes the document at End. A Failure writes nothing: nothing was sent, so the
/// caller answers with Dialect::error.
std::unique_ptr<Encoder> make_chat_whole(const ChatHead& head);

}  // namespace kvern::api
