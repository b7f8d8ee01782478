#include "api/messages/messages.h"
#include "api/testing/dialect_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern::api;
  static const Limits kLimits;
  static const auto kDialect = make_messages_dialect(kLimits);
  // What can be answered can be counted.
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const bool counted = decode_count_tokens(body, kLimits, kvern::RequestId{1}).ok();
  KV_CHECK(counted || !kDialect->decode(body, {}).ok());
  return testing::fuzz_dialect(*kDialect, data, size, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}
