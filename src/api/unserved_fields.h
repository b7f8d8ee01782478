// The one table of fields that are known, of OpenAI's API and of other servers', and not served: each would change the
// answer, so one that ignores it looks right and is not. A request that asks for one is a 400 `unsupported_parameter`
// that names it; the value that means "off" is taken. A field that stands neither here nor in a decoder is ignored.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/fields.h"

namespace kvern::api {

/// Which endpoints do not serve a field; bits.
enum Endpoints : std::uint8_t { kOnChat = 1, kOnCompletions = 2, kOnWire = 4, kOnResponses = 8, kOnMessages = 16 };

/// The value that asks for nothing, besides null. Objects, arrays and strings are off when they are empty.
enum class Off : std::uint8_t { kNullOnly, kFalse, kTrue, kZero, kOne, kEmpty };

struct UnservedField {
  std::string_view name;
  std::uint8_t endpoints;  // of Endpoints
  Off off;
  std::string_view advice;  // behind "is not supported yet: "
};

/// Ordered by name; one that means another thing elsewhere has two rows.
std::span<const UnservedField> unserved_fields() noexcept;

/// Faults go to `fields.decoding()`. O(members).
void refuse_unserved_fields(const Fields& fields, Endpoints endpoint);

}  // namespace kvern::api
