// `input` of a Responses body as a conversation. Items of one side that follow one another are one assistant message:
// reasoning, text and the calls it led to. Every kind of item that OpenAI's clients replay is taken:
//
//   message, and one without a type      reasoning                 function_call(_output), custom_tool_call(_output)
//   tool_search_call, tool_search_output, additional_tools         local_shell_call, shell_call, apply_patch_call
//                                                                   and their outputs
//   compaction, opened: the summary of what it stands for           item_reference: the stored item it names
//   web_search_call and the others that a server ran                left out of the prompt, told to the log
#pragma once

#include <string>
#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "api/responses/response_history.h"
#include "api/responses/tool_names.h"
#include "base/seal.h"
#include "ir/block.h"

namespace kvern::api {

struct ResponsesInput {
  std::vector<ir::Message> messages;
  std::vector<std::string> left_out;  // "input[3] web_search_call"
  std::vector<RequestId> references;  // only without a history: whose items are referred to, each once
};

/// What seals are for: whose reasoning, whose summaries.
std::string reasoning_purpose(std::string_view tenant);
std::string compaction_purpose(std::string_view tenant);

/// The stored conversation, then the body's own items. Without a history references are gathered, not resolved; with
/// one, what it has not is not found. Thinking comes from `encrypted_content` where `seal` opens it, else from
/// `content`, else from `summary`. Tools that a search found are added to `names`. Cache marks may stand on an item or
/// on a part of it; those of the stored conversation had their time when they came, so they are not read again.
ResponsesInput decode_responses_input(const Fields& fields, const Seal& seal, std::string_view tenant,
                                      const HistoryItems* history, ToolNames& names, CacheMarks& marks);

}  // namespace kvern::api
