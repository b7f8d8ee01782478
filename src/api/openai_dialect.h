// The dialect of OpenAI's two generating endpoints: what both decode alike stands here once, what each has of its own
// it brings.
#pragma once

#include <memory>

#include "api/dialect.h"
#include "api/fields.h"
#include "api/limits.h"
#include "api/openai_answer.h"
#include "api/unserved_fields.h"

namespace kvern::api {

struct OpenaiEndpoint {
  Endpoints which;
  /// Reads the prompt and every other field that only this endpoint has. Model, stream options and `n` are read
  /// already. Faults go to `fields.decoding()`.
  void (*decode_own)(const Fields& fields, Call& call);
  std::unique_ptr<Encoder> (*make_stream)(const AnswerHead& head, bool include_usage);
  std::unique_ptr<Encoder> (*make_whole)(const AnswerHead& head);
};

/// Immutable; thread-safe.
std::unique_ptr<const Dialect> make_openai_dialect(const Limits& limits, const OpenaiEndpoint& endpoint);

}  // namespace kvern::api
