// Any body: decoded within the limits, or an error with a body that is JSON; the answer to what was decoded keeps up.
#include <cstdint>
#include <string>
#include <string_view>

#include "api/vllm_wire/completion_answer.h"
#include "api/vllm_wire/completion_request.h"
#include "api/vllm_wire/vllm_error.h"
#include "base/check.h"
#include "base/json_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  static const api::Limits limits;
  const auto call = api::decode_wire_completion({reinterpret_cast<const char*>(data), size}, limits);
  if (!call) {
    const auto reply = api::vllm_error(call.error());
    KV_CHECK(reply.status == 400 || reply.status == 413);
    KV_CHECK(json::Document::parse(reply.body, {}).ok());
    return 0;
  }
  const auto& stopping = call->request.stopping;
  KV_CHECK(stopping.max_tokens && stopping.min_tokens <= *stopping.max_tokens);
  api::WireAnswer answer({"cmpl-1", 1, call->request.model.substr(0, 10), "f"},
                         {call->stream, call->include_usage, call->continuous_usage, call->return_token_ids,
                          call->request.logprobs.has_value()},
                         {1, 2});
  std::string out;
  const Tokens tokens{3};
  const api::WireLogprob logprob{"\"x\"", -1.0F, {{"y\n", -2.0F}}};
  answer.piece({"text", tokens, {&logprob, 1}, {}, {}}, {2, 1, {}}, out);
  answer.piece({"", {}, {}, "stop", "7"}, {2, 1, {}}, out);
  answer.end({2, 1, 1}, out);
  KV_CHECK(call->stream == out.ends_with("data: [DONE]\n\n"));
  if (!call->stream) KV_CHECK(json::Document::parse(out, {}).ok());
  return 0;
}
