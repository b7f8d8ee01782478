// OpenAI's error envelope, for every endpoint of that family: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "api/dialect.h"
#include "base/result.h"

namespace kvern::api {

/// Status, headers (Retry-After, WWW-Authenticate) and body. An internal error gets a fixed text: details
/// are for the log, where the request id finds them.
Reply openai_error(const Error& error);
/// The body alone, for an error after the stream began.
void append_openai_error(const Error& error, std::string& out);

}  // namespace kvern::api
