// Finds out by trial renderings how a template wants its conversations: some take content only as a list of parts, some
// call arguments only as an object, some only as text. Private to this room.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "prompt/chat_template.h"
#include "prompt/conversation.h"
#include "prompt/thinking_switches.h"

namespace kvern::prompt {

/// Renders a conversation in a dialect; an Error where the template refuses.
using TrialRender = std::function<Result<std::vector<Span>>(
    const std::vector<ir::Message>&, const std::vector<ir::Tool>&, const TemplateOptions&, const TemplateDialect&)>;

struct ProbeResult {
  TemplateDialect dialect;
  ThinkingSwitches thinking;
  TemplateTraits traits;
};

/// At most sixty trials, ten for a template without switches. `source` is looked at only for names: of a key, and of
/// switches.
ProbeResult probe_template(std::string_view source, const TrialRender& render);

}  // namespace kvern::prompt
