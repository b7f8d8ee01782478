#include "prompt/told_tools.h"

#include <gtest/gtest.h>

#include "prompt/jinja_template.h"

namespace kvern::prompt {
namespace {

constexpr const char* kToolless =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";
constexpr const char* kSystemless =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";

ir::Message message(ir::Role role, std::vector<ir::Content> contents) {
  ir::Message out{role, {}, {}};
  for (auto& content : contents) out.blocks.push_back({std::move(content), {}});
  return out;
}

ir::Tool tool(std::string name, ir::ToolKind kind = ir::ToolKind::kFunction) {
  ir::Tool out;
  out.name = std::move(name);
  out.kind = kind;
  if (kind == ir::ToolKind::kFunction) out.parameters = R"({"type": "object"})";
  return out;
}

std::string rendered(const char* source, std::vector<ir::Message> messages, std::vector<ir::Tool> tools) {
  const auto made = compile_template(source, {"<s>", "</s>"});
  EXPECT_TRUE(made.ok());
  ir::Request request;
  request.prompt = std::move(messages);
  request.tools = std::move(tools);
  const auto spans = (*made)->render(request);
  EXPECT_TRUE(spans.ok());
  std::string out;
  for (const Span& span : *spans) out += span.text;
  return out;
}

TEST(ToldTools, ATemplateWithoutToolsTellsThemInTheSystemMessage) {
  const std::vector<ir::Message> asked{message(ir::Role::kSystem, {ir::Text{"Be brief."}}),
                                       message(ir::Role::kUser, {ir::Text{"go"}})};
  const std::string text = rendered(
      kToolless, asked, {tool("sh"), tool("patch", ir::ToolKind::kCustom), tool("web", ir::ToolKind::kHosted)});
  EXPECT_TRUE(text.starts_with("<|system|>Be brief.\n\n# Tools\n\n")) << text;
  EXPECT_NE(text.find(R"({"type":"function","function":{"name":"sh","parameters":{"type": "object"}}})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("name":"patch","parameters":{"type": "object", "properties": {"input")"), std::string::npos);
  EXPECT_EQ(text.find("web"), std::string::npos);
  EXPECT_TRUE(text.ends_with("</tool_call><|end|><|user|>go<|end|><|assistant|>")) << text;
}

TEST(ToldTools, WithoutASystemMessageOneIsMadeOrTheUsersIsUsed) {
  const std::vector<ir::Message> asked{message(ir::Role::kUser, {ir::Text{"go"}})};
  EXPECT_TRUE(rendered(kToolless, asked, {tool("sh")}).starts_with("<|system|># Tools\n"));
  const std::string text = rendered(kSystemless, asked, {tool("sh")});
  EXPECT_TRUE(text.starts_with("<|user|># Tools\n")) << text;
  EXPECT_TRUE(text.ends_with("</tool_call>\n\ngo<|end|><|assistant|>")) << text;
}

TEST(ToldTools, CallsAndResultsAreText) {
  ir::ToolCall patch{"c2", "patch", "a \"b\"", ir::ToolKind::kCustom};
  const std::vector<ir::Message> talk{
      message(ir::Role::kUser, {ir::Text{"go"}}),
      message(ir::Role::kAssistant, {ir::Text{"Yes."}, ir::ToolCall{"c1", "sh", R"({"q":  1})"}, patch}),
      message(ir::Role::kTool, {ir::ToolResult{"c1", {}, {ir::Text{"a.txt"}}}}),
      message(ir::Role::kTool, {ir::ToolResult{"c2", {}, {ir::Text{"ok"}}}})};
  EXPECT_EQ(rendered(kToolless, talk, {}),
            "<|user|>go<|end|><|assistant|>Yes.\n<tool_call>\n{\"name\": \"sh\", \"arguments\": {\"q\":  1}}\n"
            "</tool_call>\n<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"a \\\"b\\\"\"}}\n"
            "</tool_call><|end|><|user|><tool_response>\na.txt\n</tool_response>\n<tool_response>\nok\n"
            "</tool_response><|end|><|assistant|>");
}

TEST(ToldTools, NothingIsToldWhereThereIsNothing) {
  EXPECT_EQ(rendered(kToolless, {message(ir::Role::kUser, {ir::Text{"go"}})}, {tool("web", ir::ToolKind::kHosted)}),
            "<|user|>go<|end|><|assistant|>");
}

}  // namespace
}  // namespace kvern::prompt
