// OpenAI's Responses (`POST /v1/responses`), the stateless part: every answer stands for itself, nothing is stored. So
// `store` is taken and echoed as what happens, false; `previous_response_id` and item references are not found; and
// reasoning goes to the client and back as `encrypted_content`, which alone is enough to replay it.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/limits.h"
#include "api/responses/response_plan.h"
#include "base/clock.h"
#include "base/seal.h"

namespace kvern::api {

struct ResponsesOptions {
  const Seal& seal;    // for encrypted_content; outlives dialect and encoders
  const Clock& clock;  // for completed_at, likewise
  ReasoningEvents reasoning_events = ReasoningEvents::kSummary;
};

/// Immutable; thread-safe.
std::unique_ptr<const Dialect> make_responses_dialect(const Limits& limits, const ResponsesOptions& options);

}  // namespace kvern::api
