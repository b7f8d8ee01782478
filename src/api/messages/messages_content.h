// `system` and `messages` of a Messages body to ir messages, nothing lost and every block in its place: system messages
// stand where they stood, thinking stays between the calls it led to, results stay with their user turn.
#pragma once

#include <string>
#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// Reads both fields; `system` becomes the first message. Cache marks are taken in the order of the prompt. Lines of
/// system text that change from request to request by design (`x-anthropic-billing-header: ...`) are taken out, since
/// they would spoil every reuse of the prompt, and are appended to `preamble`. Faults go to `fields.decoding()`.
std::vector<ir::Message> decode_messages(const Fields& fields, CacheMarks& marks, std::string& preamble);

/// `text` without its billing lines, which are appended to `preamble`, each with its line break.
std::string strip_billing_lines(std::string_view text, std::string& preamble);

}  // namespace kvern::api
