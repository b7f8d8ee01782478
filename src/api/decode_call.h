// The one way from a request's bytes to ir, whatever its dialect. Behind the dialect's own decoder stands what no
// dialect may differ in: hints from headers, what only an administrator may ask for, and the bounds on what the ir may
// hold. So what is closed on one API is closed on all.
#pragma once

#include <string_view>

#include "api/dialect.h"
#include "api/limits.h"

namespace kvern::api {

/// `may_place`: an administrator's request, or a server without keys: it may name the worker that is to run it. Of
/// others that wish has no effect and is named in `left_out`.
Result<Call> decode_call(const Dialect& dialect, std::string_view body, const HeaderList& headers,
                         const DecodeContext& context, const Limits& limits, bool may_place);

}  // namespace kvern::api
