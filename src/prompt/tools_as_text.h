// Tools for a template that does not print them: a section that lists them and states how to call one, and calls and
// results of earlier turns as text of that form. So every model can be given tools. The form is Hermes', which the
// parser reads. Private to this room.
#pragma once

#include <vector>

#include "ir/request.h"

namespace kvern::prompt {

/// The conversation with everything about tools as text. The section stands first in the first system message, so that
/// sessions with the same tools share it, or in a message of its own; where the template has no place for a system
/// message, `system` is false and it stands in the first user's. Neighbouring messages of results are one user's turn.
std::vector<ir::Message> tools_as_text(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                       bool system);

}  // namespace kvern::prompt
