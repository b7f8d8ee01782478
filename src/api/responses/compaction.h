// `POST /v1/responses/compact`: a long conversation into a short one to go on from. What the user said stays word for
// word; the rest becomes one item of type `compaction`, a summary by the model, sealed like reasoning: a client hands
// it back unread, and any process with the key continues from it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/responses/response_plan.h"
#include "api/responses/responses_encoder.h"
#include "base/json_reader.h"
#include "ir/block.h"

namespace kvern::api {

/// What the model is asked, behind the conversation.
ir::Message compaction_request();

/// The user's messages among stored items and those of this request (an array), as items with commas between.
std::string compaction_kept(const std::vector<json::Value>& conversation, std::string_view input);

struct CompactionPlan {
  ResponsePlan response;
  std::string purpose;  // of the seal
  std::string kept;
};
/// One `response.compaction` document at the End; nothing at a Failure. `append_object` is empty where the model said
/// nothing, which is no summary.
std::unique_ptr<ResponsesEncoder> make_compaction(CompactionPlan plan);

}  // namespace kvern::api
