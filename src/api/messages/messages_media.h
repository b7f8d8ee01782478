// Images, documents and search results of a Messages body. Their bytes stand in the body: no address is ever fetched.
#pragma once

#include <optional>

#include "api/fields.h"
#include "ir/block.h"

namespace kvern::api {

/// Each reads a block of its type; nullopt, and a fault that names the field, where it cannot be taken.
std::optional<ir::Image> decode_image(const Fields& block);
/// Plain text and lists of text become text, anything else its bytes.
std::optional<ir::Document> decode_document(const Fields& block);
/// A plain document whose title and context say what was found where.
std::optional<ir::Document> decode_search_result(const Fields& block);

}  // namespace kvern::api
