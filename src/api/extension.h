// `nvext`, the extension of the request body that NVIDIA Dynamo's clients send, on every generating endpoint: hints,
// session, salt and switches become fields of the ir. Fields that Dynamo itself has removed are read as well, since
// clients still send them. A known field of a wrong type is an error that names it; an unknown one has no effect and is
// named for the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// Reads `nvext` of a body into `request`; faults go to `body.decoding()`. What has no effect here is added to
/// `left_out` by name. A worker is named by the decimal form of its id; who may ask for one is not decided here
/// (decode_call.h).
void decode_extension(const Fields& body, ir::Request& request, std::vector<std::string>& left_out);

/// An annotation that begins so asks which worker would run the request, and for nothing else.
constexpr std::string_view kQueryAnnotation = "query_instance_id:";
bool is_query_only(const ir::Hints& hints) noexcept;

/// A priority of any size, clipped to +-10^9: a wish is never refused for its size. Faults only by type.
std::optional<std::int32_t> decode_priority(const Fields& fields, std::string_view name);

}  // namespace kvern::api
