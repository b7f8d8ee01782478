// Any body to both decoders: accepted within the limits, or an error of the client's.
#include <cstdint>
#include <string_view>

#include "api/tokenize/tokenize.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  const api::Limits limits;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto tokenize = api::decode_tokenize(body, limits);
  KV_CHECK(tokenize.ok() || tokenize.error().code == ErrorCode::kInvalidRequest);
  const auto detokenize = api::decode_detokenize(body, limits);
  KV_CHECK(detokenize.ok() || detokenize.error().code == ErrorCode::kInvalidRequest);
  if (detokenize) {
    for (const TokenId token : detokenize->tokens) KV_CHECK(token >= 0);
  }
  return 0;
}
