// Content parts of input items: text, images and files.
#pragma once

#include <optional>
#include <vector>

#include "api/cache_marks.h"
#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// A string, or an array of parts, which stay apart; null is none. Without `marks` those on parts are not read.
std::vector<MarkedPart> decode_input_parts(const Fields& item, std::string_view key, CacheMarks* marks);
/// The texts of an array of parts joined, whatever their type; for reasoning, which is text only.
std::string joined_texts(const Fields& item, std::string_view key);

}  // namespace kvern::api
