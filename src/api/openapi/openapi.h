// The OpenAPI page that the server offers of itself: every route of the registry, with the schemas of schemas.inc.
// Those say what a body holds; what more a server checks (lengths, what goes with what) is said by its errors.
#pragma once

#include <string>
#include <string_view>

namespace kvern::api {

/// An OpenAPI 3.1 document as JSON. Made anew at each call (about 50 us).
std::string render_openapi(std::string_view version);

}  // namespace kvern::api
