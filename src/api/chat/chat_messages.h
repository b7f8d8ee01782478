// `messages` of a chat body to ir messages, nothing lost: parts stay apart, reasoning that a client sends back becomes
// Thinking, calls keep their exact argument text.
#pragma once

#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// Reads the required field `messages`; `cache_control` may stand on messages and on parts. Faults go to
/// `fields.decoding()`.
std::vector<ir::Message> decode_chat_messages(const Fields& fields, CacheMarks& marks);

}  // namespace kvern::api
