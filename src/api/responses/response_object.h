// The response object: what created, in_progress and the last event carry, and what a whole answer is. All 31 keys that
// Open Responses asks for are there, null or not.
#pragma once

#include <chrono>
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
  bool queued = false;              // it waits for the engine
  bool cancelled = false;           // a client ended it
  std::chrono::seconds ended_at{};  // unix time of `end`: every copy of the object says the same
};

/// `completed`, `incomplete`, `failed`, `cancelled` or, before that, `queued` or `in_progress`.
const char* status_of(const ResponseState& state) noexcept;
void append_response(const ResponsePlan& plan, const ResponseState& state, std::string& out);
/// "usage": {...}, with both of its details.
void write_usage(const ir::Usage& usage, json::Writer& writer);
/// The code a failed response shows; the clients' own decide by it whether to try again.
const char* failure_code(const Error& error) noexcept;

}  // namespace kvern::api
