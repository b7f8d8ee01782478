// The dialect of POST /v1/completions: a prompt as text or token ids, continued as it stands.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/limits.h"

namespace kvern::api {

/// Immutable; thread-safe.
std::unique_ptr<const Dialect> make_completions_dialect(const Limits& limits);

}  // namespace kvern::api
