// Responses answers as SSE, every event with its `event:` line and a `sequence_number` from 0:
//
//   response.created, response.in_progress (in the background response.queued before it),
//   for each item: response.output_item.added,
//     message:       content_part.added, output_text.delta..., output_text.done, content_part.done
//     reasoning:     reasoning_summary_part.added, reasoning_summary_text.delta..., ...text.done, ...part.done
//                    (or content_part.added, reasoning_text.delta..., reasoning_text.done, content_part.done)
//     function_call: function_call_arguments.delta..., .done     custom_tool_call: custom_tool_call_input.delta...,
//     .done response.output_item.done
//   response.completed | response.incomplete | response.failed
//
// An item is done when what comes next is known: only then is it certain that it was not cut.
#pragma once

#include <memory>

#include "api/responses/response_plan.h"
#include "api/responses/responses_encoder.h"

namespace kvern::api {

/// Cost per piece: copies of prepared texts around the escaped one; no allocation once `out` is large enough.
/// Keep-alives are further response.in_progress: clients' idle timers count events, not comments.
std::unique_ptr<ResponsesEncoder> make_responses_stream(ResponsePlan plan);

/// One `response` document at the End; nothing at a Failure.
std::unique_ptr<ResponsesEncoder> make_responses_whole(ResponsePlan plan);

}  // namespace kvern::api
