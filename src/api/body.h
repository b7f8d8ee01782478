// The first step of every decoder: a body to a JSON object within the limits.
#pragma once

#include <memory>
#include <string_view>

#include "api/limits.h"
#include "base/json_reader.h"
#include "base/result.h"

namespace kvern::api {

/// Parses `body`, which outlives the document. A document whose root is no object is an error.
Result<std::unique_ptr<const json::Document>> read_object(std::string_view body, const Limits& limits);

}  // namespace kvern::api
