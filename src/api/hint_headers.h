// What clients and proxies say in headers instead of the body: whose turn this is, how urgent it is, and, of an
// administrator's, which worker is to run it. The same on every endpoint, whatever its dialect. Ids are opaque: they
// are compared, never taken apart; a value that is none of its kind has no effect.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/dialect.h"
#include "api/limits.h"
#include "base/result.h"
#include "ir/request.h"

namespace kvern::api {

/// Puts the headers over what the body said. An Error for an id over its limit: cut, two ids might become one. Headers
/// that are known and have no effect are named in `left_out`. O(headers).
std::optional<Error> apply_hint_headers(const HeaderList& headers, const Limits& limits, ir::Request& request,
                                        std::vector<std::string>& left_out);

}  // namespace kvern::api
