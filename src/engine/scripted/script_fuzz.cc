#include <cstdint>

#include "engine/scripted/script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(kvern::engine::parse_script({reinterpret_cast<const char*>(data), size}));
  return 0;
}
