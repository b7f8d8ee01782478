// Tools for a model whose template knows none: they are told in words, with the format in which to call them (that of
// the hermes family, which answers are parsed by); calls and results of the conversation become text in that format.
// The same input gives the same text, so a conversation's prompts stay prefixes of one another. Private to this room.
#pragma once

#include <vector>

#include "ir/request.h"

namespace kvern::prompt {

/// Whether there is anything to tell: a tool the model could call, or a call or result in the conversation that the
/// template does not print by itself (`prints_calls`). With tools all is told in one format, so that calls of earlier
/// turns look as the model is asked to write them.
bool needs_telling(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools, bool prints_calls);

/// The conversation with everything about tools as text. The tools stand first in the first system message, so that
/// sessions with other instructions share them, or in one of their own; where the template has no place for a system
/// message (`has_system`), before the first user message's text. Results that follow one another, and what the user
/// says behind them, are one turn. Costs a copy of the conversation.
std::vector<ir::Message> with_told_tools(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                         bool has_system);

}  // namespace kvern::prompt
