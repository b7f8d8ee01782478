// Any body: decoded within the limits, or an error with a body that is JSON; the encoder of what was decoded keeps up.
#include <cstdint>
#include <string>
#include <string_view>

#include "api/chat/chat.h"
#include "base/check.h"
#include "base/json_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  static const auto dialect = api::make_chat_dialect(api::Limits());
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  auto call = dialect->decode(body, {RequestId{1}, std::chrono::seconds(1)});
  if (!call) {
    const auto reply = dialect->error(call.error(), RequestId{1});
    KV_CHECK(reply.status == 400 || reply.status == 413);
    KV_CHECK(json::Document::parse(reply.body, {}).ok());
    return 0;
  }
  const ir::Stopping& stopping = call->request.stopping;
  KV_CHECK(stopping.strings.size() <= 4 && stopping.min_tokens <= stopping.max_tokens.value_or(1U << 20U));
  KV_CHECK(call->request.sampling.temperature >= 0 && call->request.sampling.top_p > 0);
  std::string out;
  call->encoder->add(ir::Start{}, out);
  call->encoder->add(ir::BlockStart{}, out);
  call->encoder->add(ir::BlockDelta{0, "text"}, out);
  call->encoder->add(ir::BlockStop{}, out);
  call->encoder->add(ir::End{}, out);
  KV_CHECK(call->stream == out.ends_with("data: [DONE]\n\n"));
  if (!call->stream) KV_CHECK(json::Document::parse(out, {}).ok());
  return 0;
}
