// Any bytes, as one connection's requests: no crash, bounds kept, and the same result for three ways to split them. The
// first byte seeds the splits.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/rng.h"
#include "net/testing/read_all.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  if (size == 0) return 0;
  const std::string bytes(data + 1, data + size);
  net::ReaderLimits limits;
  limits.header_bytes_max = 1024;
  limits.header_fields_max = 16;
  limits.body_bytes_max = 256;
  limits.chunk_line_max = 64;
  limits.trailer_bytes_max = 128;
  Rng rng(data[0]);
  const std::string expected = net::testing::read_requests(bytes, limits, net::testing::whole);
  KV_CHECK(net::testing::read_requests(bytes, limits, [] { return 1U; }) == expected);
  KV_CHECK(net::testing::read_requests(bytes, limits, [&] { return 1 + rng.below(40); }) == expected);
  return 0;
}
