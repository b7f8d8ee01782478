// OpenAI's Responses (`POST /v1/responses`): decode, encode, errors. What is stored and what a request continues goes
// through here as text: the dialect knows items, the app has the store.
//
// Reasoning goes to the client and back as `encrypted_content`, which alone is enough to replay it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/dialect.h"
#include "api/limits.h"
#include "api/responses/response_history.h"
#include "api/responses/response_plan.h"
#include "api/responses/responses_encoder.h"
#include "api/responses/responses_fields.h"
#include "base/clock.h"
#include "base/seal.h"

namespace kvern::api {

struct ResponsesOptions {
  const Seal& seal;    // for encrypted_content; outlives dialect and encoders
  const Clock& clock;  // for completed_at, likewise
  ReasoningEvents reasoning_events = ReasoningEvents::kSummary;
  bool stores = false;  // there is a store of responses
};

/// A decoded request. Where it needs stored responses and had no history, only `needs` and `state` count.
struct ResponsesCall {
  Call call;
  ResponsesState state;
  ResponsesNeeds needs;
  std::string input;                    // its items, to be stored; empty where nothing is
  ResponsesEncoder* encoder = nullptr;  // of `call`
};

/// Immutable; thread-safe.
class ResponsesDialect : public Dialect {
 public:
  /// With no history what is needed is told, and nothing is decoded for it; with one, what it lacks is not found.
  virtual Result<ResponsesCall> decode_call(std::string_view body, const DecodeContext& context,
                                            const ResponsesHistory* history) const = 0;
  /// `POST /v1/responses/compact`, likewise: the conversation with a request for its summary behind it. Never streams.
  virtual Result<ResponsesCall> decode_compact(std::string_view body, const DecodeContext& context,
                                               const ResponsesHistory* history) const = 0;
};
std::unique_ptr<const ResponsesDialect> make_responses_dialect(const Limits& limits, const ResponsesOptions& options);

/// The last event of a stream of which no other is left, from the stored object. Its number is `sequence`.
std::string final_event(std::string_view response, std::uint64_t sequence);
/// What DELETE answers.
std::string render_deleted(RequestId id);

}  // namespace kvern::api
