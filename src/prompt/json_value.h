// JSON text as a value of the Jinja engine: key order and number text as they are, every string and key marked as
// input, so that nothing of a client's JSON can become template text.
#pragma once

#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace kvern::prompt {

/// nullopt for what is not one JSON document, or nests deeper than 128. The last of equal keys counts. Throws only what
/// the engine's bounds throw.
std::optional<jinja::value> json_value(std::string_view json);

}  // namespace kvern::prompt
