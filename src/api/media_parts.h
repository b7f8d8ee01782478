// Images and files in OpenAI's two conversational APIs, which name their members alike. Their bytes stand in the body:
// no address is ever fetched, no upload is kept.
#pragma once

#include <optional>
#include <string_view>

#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// An object with a data: URL under `key` and perhaps a `detail`. nullopt, and a fault that names the field, for what
/// cannot be taken; likewise below.
std::optional<ir::Part> image_of(const Fields& object, std::string_view key);
/// An object with `file_data`, a data: URL or bare base64, and perhaps a `filename`. Files of text become text.
std::optional<ir::Part> file_of(const Fields& object);

}  // namespace kvern::api
