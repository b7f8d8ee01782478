// For fuzzers: any body through a dialect. It is decoded within the limits, or is an error whose body is JSON; the
// encoder of what was decoded keeps up with a stream for each choice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/dialect.h"
#include "api/limits.h"
#include "base/check.h"
#include "base/json_reader.h"

namespace kvern::api::testing {

inline void check_request(const ir::Request& request) {
  const Limits limits;
  const ir::Stopping& stopping = request.stopping;
  KV_CHECK(stopping.strings.size() <= 4 && stopping.min_tokens <= stopping.max_tokens.value_or(1U << 20U));
  KV_CHECK(request.sampling.temperature >= 0 && request.sampling.top_p > 0);
  KV_CHECK(request.choices >= 1 && request.answers() <= limits[Limit::kChoices]);
  KV_CHECK(request.logprobs.value_or(0) <= limits[Limit::kTopLogprobs]);
  for (const auto& [token, bias] : request.sampling.logit_bias) KV_CHECK(token >= 0 && bias >= -100 && bias <= 100);
}

/// An answer in which every choice says the same.
inline std::string answer(const ir::Request& request, Encoder& encoder) {
  std::string out;
  ir::BlockDelta delta{0, "text"};
  if (request.logprobs) delta.logprobs = {{"te", -0.5F, {{"te", -0.5F}, {"\xF0\x9F", -2.0F}}}, {"xt", -1.0F, {}}};
  for (std::uint32_t choice = 0; choice < request.answers(); ++choice) {
    encoder.add(choice, ir::Start{}, out);
    encoder.add(choice, ir::BlockStart{}, out);
    encoder.add(choice, delta, out);
    encoder.add(choice, ir::BlockStop{}, out);
    encoder.add(choice, ir::End{}, out);
  }
  return out;
}

/// `stream_end` is what every stream of this dialect ends with.
inline int fuzz_dialect(const Dialect& dialect, const std::uint8_t* data, std::size_t size,
                        std::string_view stream_end = "data: [DONE]\n\n") {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  auto call = dialect.decode(body, {RequestId{1}, std::chrono::seconds(1)});
  if (!call) {
    const auto reply = dialect.error(call.error(), RequestId{1});
    KV_CHECK(reply.status == 400 || reply.status == 413);
    KV_CHECK(json::Document::parse(reply.body, {}).ok());
    return 0;
  }
  check_request(call->request);
  const std::string out = answer(call->request, *call->encoder);
  KV_CHECK(call->stream == out.ends_with(stream_end));
  if (!call->stream) KV_CHECK(json::Document::parse(out, {}).ok());
  return 0;
}

}  // namespace kvern::api::testing
