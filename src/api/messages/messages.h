// The dialect of POST /v1/messages, and its count of tokens.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "api/dialect.h"
#include "api/limits.h"

namespace kvern::api {

/// Immutable; thread-safe.
std::unique_ptr<const Dialect> make_messages_dialect(const Limits& limits);

/// A body of POST /v1/messages/count_tokens: one of /v1/messages without what only an answer needs.
Result<ir::Request> decode_count_tokens(std::string_view body, const Limits& limits, RequestId id);
/// {"input_tokens": N}.
std::string render_count_tokens(std::size_t tokens);

}  // namespace kvern::api
