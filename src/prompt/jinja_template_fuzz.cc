// Any bytes as a chat template: compiling and rendering end within their bounds, and what was input comes out as data.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "prompt/jinja_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  prompt::RenderLimits limits;
  limits.steps = 50'000;
  limits.bytes = 4U << 20U;
  limits.milliseconds = 200;
  const auto chat = prompt::compile_template(source, {"<s>", "</s>"}, limits);
  if (!chat.ok()) return 0;
  ir::Request request;
  request.prompt = std::vector<ir::Message>{
      {ir::Role::kSystem, "", {{ir::Text{"\x01mark\x02"}, {}}}},
      {ir::Role::kUser, "\x01mark\x02", {{ir::Text{" \x01mark\x02 "}, {}}}},
      {ir::Role::kAssistant, "", {{ir::ToolCall{"\x01mark\x02", "\x01mark\x02", R"({"k": "\u0001mark\u0002"})"}, {}}}},
      {ir::Role::kTool, "", {{ir::ToolResult{"\x01mark\x02", "", {ir::Text{"\x01mark\x02"}}, false}, {}}}}};
  const auto spans = (*chat)->render(request);
  if (!spans.ok() || source.find('\x01') != std::string_view::npos) return 0;
  for (const prompt::Span& span : *spans) {
    // Only input holds this byte, so template text that does has lost its mark on the way.
    if (span.origin == prompt::Origin::kTemplate && span.text.find('\x01') != std::string::npos) std::abort();
  }
  return 0;
}
