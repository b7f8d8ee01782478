#include "api/body.h"

#include "api/fields.h"

namespace kvern::api {

Result<std::unique_ptr<const json::Document>> read_object(std::string_view body, const Limits& limits) {
  if (auto fault = limits.check(Limit::kBodyBytes, body.size(), "")) return *std::move(fault);
  auto document = json::Document::parse(body, {static_cast<std::uint32_t>(limits[Limit::kJsonDepth]),
                                               static_cast<std::uint32_t>(limits[Limit::kJsonValues]),
                                               static_cast<std::uint32_t>(limits[Limit::kJsonMembers])});
  if (!document) return document;
  const json::Kind kind = (*document)->root().kind();
  if (kind != json::Kind::kObject) {
    Decoding decoding(limits);
    decoding.wrong_type(Path{}, "a JSON object", kind);
    return decoding.fault();
  }
  return document;
}

}  // namespace kvern::api
