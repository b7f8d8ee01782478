// Any body through the Responses dialect, and through what it decodes to: an answer with every kind of block.
#include "api/responses/input_items.h"
#include "api/responses/responses.h"
#include "api/testing/dialect_fuzz.h"

namespace {

using namespace kvern;

/// Thinking, text, and a call of every tool by pieces that cut its arguments anywhere.
std::string answer(const ir::Request& request, api::Encoder& encoder) {
  std::string out;
  std::uint32_t index = 0;
  const auto block = [&](const ir::BlockStart& start, std::initializer_list<const char*> pieces) {
    encoder.add(0, start, out);
    for (const char* piece : pieces) encoder.add(0, ir::BlockDelta{index, piece}, out);
    encoder.add(0, ir::BlockStop{index++}, out);
  };
  encoder.add(0, ir::Start{}, out);
  block({index, ir::BlockKind::kThinking, {}, {}}, {"hm"});
  block({index, ir::BlockKind::kText, {}, {}}, {"te", "xt"});
  for (const ir::Tool& tool : request.tools) {
    if (index > 20) break;
    block({index, ir::BlockKind::kToolCall, "c", ir::prompt_name(tool.tool_namespace, tool.name)},
          {"{\"inp", "ut\": \"a\\", "n\\ud83d", "\\ude00\"}"});
  }
  encoder.keep_alive(out);
  encoder.add(0, ir::End{}, out);
  return out;
}

/// Each event is JSON, the last one ends the response.
void check_stream(std::string_view out) {
  std::size_t events = 0;
  while (!out.empty()) {
    const std::size_t end = out.find("\n\n");
    KV_CHECK(end != std::string_view::npos);
    const std::string_view event = out.substr(0, end);
    out.remove_prefix(end + 2);
    const std::size_t data = event.find("\ndata: ");
    KV_CHECK(event.starts_with("event: response.") && data != std::string_view::npos);
    KV_CHECK(json::Document::parse(event.substr(data + 7), {}).ok());
    KV_CHECK((events++ == 0) == event.starts_with("event: response.created\n"));
    KV_CHECK(out.empty() == event.starts_with("event: response.completed\n"));
  }
}

/// What is stored of a good request can be listed and continued.
void check_stored(const api::ResponsesDialect& dialect, std::string_view body) {
  static const api::ResponsesHistory kNone;
  auto call = dialect.decode_call(body, {RequestId{1}, std::chrono::seconds(1)}, &kNone);
  KV_CHECK(call.ok());
  if (!call->state.store) return;
  KV_CHECK(api::render_input_items(call->input, {}, api::Limits()).ok());
  api::ResponsesHistory history;
  std::string object;
  std::string out = answer(call->call.request, *call->call.encoder);
  call->encoder->append_object(object);
  KV_CHECK(json::Document::parse(object, {}).ok());
  history.turns.push_back({call->input, object});
  KV_CHECK(dialect
               .decode_call(R"({"input":"on","previous_response_id":"resp_0000000000000001"})",
                            {RequestId{2}, std::chrono::seconds(1)}, &history)
               .ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ManualClock kClock;
  static const Seal kSeal(Secret(std::string(Seal::kKeyBytes, 'k')));
  static const auto kDialect =
      api::make_responses_dialect(api::Limits(), {kSeal, kClock, api::ReasoningEvents::kSummary, true});
  auto call = kDialect->decode({reinterpret_cast<const char*>(data), size}, {RequestId{1}, std::chrono::seconds(1)});
  if (!call) {
    const auto reply = kDialect->error(call.error(), RequestId{1});
    KV_CHECK(reply.status == 400 || reply.status == 413);
    KV_CHECK(json::Document::parse(reply.body, {}).ok());
    return 0;
  }
  api::testing::check_request(call->request);
  check_stored(*kDialect, {reinterpret_cast<const char*>(data), size});
  const std::string out = answer(call->request, *call->encoder);
  if (call->stream && !out.empty() && out.starts_with("event:")) {
    check_stream(out);
  } else {
    KV_CHECK(json::Document::parse(out, {}).ok());
  }
  return 0;
}
