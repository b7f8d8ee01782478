// Ids and tokens that a Messages client holds for us between turns. All are opaque to it and need no memory of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/strong_id.h"

namespace kvern::api {

/// The `toolu_` id of a call: unique over requests and blocks, and holding the id the call has inside (the model's own
/// or the pipeline's "call_..."), so that a replayed prompt says what the model said.
std::string tool_use_id(std::string_view call_id, RequestId request, std::uint32_t block);
/// The way back. Ids that are none of ours, another server's, stay as they are.
std::string call_id_of(std::string_view tool_use_id);

/// The only member of a call's `input` where the model's arguments were no JSON object: their exact text. Anthropic
/// names it so for arguments that a client could not parse.
inline constexpr std::string_view kInvalidJsonKey = "INVALID_JSON";

/// The signature of a thinking block that the client sees.
std::string thinking_signature(RequestId request, std::uint32_t block);
/// That of one whose text is kept from it: it carries the text.
std::string hidden_thinking_signature(std::string_view text);
/// The text of a hidden one; nullopt for any other signature, ours or another server's.
std::optional<std::string> hidden_thinking(std::string_view signature);

}  // namespace kvern::api
