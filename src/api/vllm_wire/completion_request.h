// POST /v1/completions as vLLM takes it: token ids or text in, vLLM's own fields, its defaults, and its sign of
// `priority` (lower is sooner). One prompt, one choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/limits.h"
#include "base/result.h"
#include "ir/request.h"

namespace kvern::api {

struct WireCall {
  ir::Request request;  // priority turned to kvern's sign; max_tokens is set
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage in every event
  bool early_usage = false;       // and cached tokens in the first; asked for by a header of kvern's
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // log probabilities name tokens `token_id:N`
  bool skip_special_tokens = true;
  bool include_stop_string = false;
  bool add_special_tokens = true;  // around a text prompt
};

/// Unknown fields are ignored, as vLLM does; known ones that would change the answer and are not served are refused.
Result<WireCall> decode_wire_completion(std::string_view body, const Limits& limits);

}  // namespace kvern::api
