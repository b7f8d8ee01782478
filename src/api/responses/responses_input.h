// `input` of a Responses body as a conversation. Items of one side that follow one another are one assistant message:
// reasoning, text and the calls it led to. Every kind of item that OpenAI's clients replay is taken:
//
//   message, and one without a type      reasoning                 function_call(_output), custom_tool_call(_output)
//   tool_search_call, tool_search_output, additional_tools         local_shell_call, shell_call, apply_patch_call
//                                                                   and their outputs
//   web_search_call and the others that a server ran, compaction   left out of the prompt, told to the log
//   item_reference                                                  not found: no answer is stored
#pragma once

#include <string>
#include <vector>

#include "api/fields.h"
#include "api/responses/tool_names.h"
#include "base/seal.h"
#include "ir/block.h"

namespace kvern::api {

struct ResponsesInput {
  std::vector<ir::Message> messages;
  std::vector<std::string> left_out;  // "input[3] web_search_call"
};

/// Thinking comes from `encrypted_content` where `seal` opens it, else from `content`, else from `summary`. Tools that
/// a search found are added to `names`.
ResponsesInput decode_responses_input(const Fields& fields, const Seal& seal, std::string_view seal_purpose,
                                      ToolNames& names);

}  // namespace kvern::api
