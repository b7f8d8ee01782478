#include "api/completions/completions.h"
#include "api/testing/dialect_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kDialect = kvern::api::make_completions_dialect(kvern::api::Limits());
  return kvern::api::testing::fuzz_dialect(*kDialect, data, size);
}
