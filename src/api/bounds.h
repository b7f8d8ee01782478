// The check that every request passes, whatever dialect it came in: what the ir holds is within the table of limits.
// The dialects check as they read and name the very field; a limit that one of them forgets is held here all the same.
#pragma once

#include <optional>

#include "api/limits.h"
#include "base/result.h"
#include "ir/request.h"

namespace kvern::api {

/// The first thing over its limit, with the field's name as most dialects spell it. O(blocks).
std::optional<Error> check_bounds(const ir::Request& request, const Limits& limits);

}  // namespace kvern::api
