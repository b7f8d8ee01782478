// The dialect of POST /v1/chat/completions.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/limits.h"

namespace kvern::api {

/// Immutable; thread-safe.
std::unique_ptr<const Dialect> make_chat_dialect(const Limits& limits);

}  // namespace kvern::api
