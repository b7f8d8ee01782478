// Errors as Anthropic has them: {"type": "error", "error": {"type", "message"}, "request_id"}.
#pragma once

#include "api/dialect.h"

namespace kvern::api {

/// Appends the object; also the data of an `error` event.
void append_messages_error(const Error& error, RequestId id, std::string& out);
/// Status, headers (`request-id`, Retry-After where a retry makes sense) and body.
Reply messages_error(const Error& error, RequestId id);

}  // namespace kvern::api
