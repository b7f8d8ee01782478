// JSON text as a value of the Jinja engine: key order and number text as they are, every string and key marked as
// input, so that nothing of a client's JSON can become template text.
#pragma once

#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace kvern::prompt {

/// nullopt for what base/json_reader refuses: no JSON, nested deeper than 128, a key twice in an object. Throws only
/// what the engine's bounds throw.
std::optional<jinja::value> json_value(std::string_view text);

}  // namespace kvern::prompt
