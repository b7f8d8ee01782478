// Bytes as a payload. What decodes must encode, decode to the same again in the styles that carry everything, and
// encode to the same bytes in each style.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "engine/events/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern::engine::events;
  auto decoded = decode({reinterpret_cast<const char*>(data), size});
  if (!decoded.ok()) return 0;
  auto& batch = decoded->batch;
  if (!(batch.timestamp_s == batch.timestamp_s)) batch.timestamp_s = 0;  // NaN equals nothing
  for (const auto style :
       {WireStyle::kVllmMaps, WireStyle::kVllmTuples, WireStyle::kSglangMaps, WireStyle::kSglangTuples}) {
    std::string once;
    encode(batch, style, once);
    const auto again = decode(once);
    KV_CHECK(again.ok() && again->batch.events.size() == batch.events.size());
    if (style == WireStyle::kVllmMaps || style == WireStyle::kSglangMaps) KV_CHECK(again->batch == batch);
    std::string twice;
    encode(again->batch, style, twice);
    KV_CHECK(once == twice);
  }
  return 0;
}
