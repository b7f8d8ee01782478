// Any bytes as a seal: opened by nobody but who sealed them, and without a read out of bounds.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/seal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kvern::Seal kSeal(kvern::Secret(std::string(kvern::Seal::kKeyBytes, 'k')));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // What opens is its own seal: nothing else carries the tag. (Seeds hold true ones.)
  if (const auto opened = kSeal.open("fuzz", text)) KV_CHECK(kSeal.seal("fuzz", *opened) == text);
  const std::string sealed = kSeal.seal("fuzz", text);
  KV_CHECK(kSeal.open("fuzz", sealed) == text);
  KV_CHECK(!kSeal.open("other", sealed));
  return 0;
}
