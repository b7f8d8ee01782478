// Content parts of input items: text, images and files.
#pragma once

#include <optional>
#include <vector>

#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// A string, or an array of parts, which stay apart; null is none.
std::vector<ir::Part> decode_input_parts(const Fields& item, std::string_view key);
/// The texts of an array of parts joined, whatever their type; for reasoning, which is text only.
std::string joined_texts(const Fields& item, std::string_view key);

}  // namespace kvern::api
