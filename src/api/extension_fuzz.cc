// Any `nvext` in any dialect: read within the bounds, or a fault that names a field below it.
#include <cstdint>
#include <string>

#include "api/bounds.h"
#include "api/extension.h"
#include "base/check.h"
#include "base/json_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto document = json::Document::parse(text, {});
  if (!document.ok() || !(*document)->root().is(json::Kind::kObject)) return 0;
  const api::Limits limits;
  api::Decoding decoding(limits);
  const api::Path top;
  ir::Request request;
  request.prompt = std::vector<ir::Message>{{ir::Role::kUser, "", {{ir::Text{"hi"}, std::nullopt}}}};
  std::vector<std::string> left_out;
  api::decode_extension(api::Fields((*document)->root(), top, decoding), request, left_out);
  if (decoding.failed()) {
    KV_CHECK(decoding.fault().param.starts_with("nvext"));
    return 0;
  }
  KV_CHECK(!api::check_bounds(request, limits));
  KV_CHECK(left_out.size() < 100);
  for (const auto& name : left_out) KV_CHECK(name.size() < 1024);
  return 0;
}
