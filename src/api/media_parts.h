// Images and files as OpenAI's dialects carry them: `data:` URLs and base64. Nothing is fetched, no uploads are kept.
#pragma once

#include <optional>
#include <string_view>

#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// An id of an upload, of which there are none here, is a fault.
void refuse_file_id(const Fields& part);
/// The image of the `data:` URL in the field `name`; nullopt, and a fault that names the field, where it is none.
std::optional<ir::Image> decode_image_url(const Fields& fields, std::string_view name);
/// `file_data`, a data URL or bare base64, with `filename`. Files whose type is text become text. A `file_id` or
/// `file_url` is a fault.
std::optional<ir::Document> decode_file(const Fields& fields);

}  // namespace kvern::api
