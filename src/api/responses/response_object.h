// The response object: what created, in_progress and the last event carry, and what a whole answer is. All 31 keys that
// Open Responses asks for are there, null or not.
#pragma once

#include <string>

#include "api/responses/output_items.h"
#include "api/responses/response_plan.h"
#include "base/result.h"
#include "ir/event.h"

namespace kvern::api {

/// How it stands with a response. Borrows; lives for one call.
struct ResponseState {
  const OutputItems* items = nullptr;
  const ir::End* end = nullptr;     // it ended
  const Error* failure = nullptr;   // it failed
  std::string_view extension = {};  // its `nvext`, as JSON; empty: none
};

/// `response.completed`, `response.incomplete`, `response.failed` or, before that, `in_progress`: the status alone.
const char* status_of(const ResponseState& state) noexcept;
void append_response(const ResponsePlan& plan, const ResponseState& state, std::string& out);
/// The code a failed response shows; the clients' own decide by it whether to try again.
const char* failure_code(const Error& error) noexcept;

}  // namespace kvern::api
