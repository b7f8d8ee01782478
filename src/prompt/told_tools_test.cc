#include "prompt/told_tools.h"

#include <gtest/gtest.h>

#include "prompt/jinja_template.h"

namespace kvern::prompt {
namespace {

using Messages = std::vector<ir::Message>;

ir::Message message(ir::Role role, std::vector<ir::Content> contents) {
  ir::Message out{role, "", {}};
  for (ir::Content& content : contents) out.blocks.push_back({std::move(content), std::nullopt});
  return out;
}
ir::Message user(const char* text) { return message(ir::Role::kUser, {ir::Text{text}}); }
ir::Message system(const char* text) { return message(ir::Role::kSystem, {ir::Text{text}}); }
ir::Message result(const char* id, const char* text) {
  return message(ir::Role::kTool, {ir::ToolResult{id, "", {ir::Text{text}}, false}});
}

std::vector<ir::Tool> two_tools() {
  ir::Tool list{"ls", "Lists \"files\".", R"({"type": "object",  "properties": {}})", false};
  ir::Tool patch{"patch", "", "", false, ir::ToolKind::kCustom, "fs"};
  ir::Tool hosted{"web_search", "", "", false, ir::ToolKind::kHosted};
  return {list, patch, hosted};
}

/// A line a message: its role, and its texts with thoughts in brackets.
std::string shown(const Messages& messages) {
  std::string out;
  for (const ir::Message& each : messages) {
    out += std::string(ir::to_string(each.role)) + ": ";
    for (const ir::Block& block : each.blocks) {
      if (const auto* text = std::get_if<ir::Text>(&block.content)) out += text->text;
      if (const auto* thinking = std::get_if<ir::Thinking>(&block.content)) out += "[" + thinking->text + "]";
    }
    out += "|\n";
  }
  return out;
}

std::string first_text(const Messages& messages) { return std::get<ir::Text>(messages[0].blocks[0].content).text; }

TEST(ToldTools, TheSectionListsWhatTheModelMayCall) {
  const std::string text = first_text(with_told_tools({user("hi")}, two_tools(), true));
  EXPECT_NE(
      text.find(R"({"name":"ls","description":"Lists \"files\".","parameters":{"type": "object",  "properties": {}}}
{"name":"fs__patch","parameters":{"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}
</tools>)"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("web_search"), std::string::npos);
  EXPECT_NE(text.find("<tool_call>\n{\"name\": <function name>, \"arguments\": "), std::string::npos);
}

TEST(ToldTools, TheSectionStandsBeforeTheSystemTextSoThatSessionsShareIt) {
  const Messages made = with_told_tools({system("S"), user("hi")}, two_tools(), true);
  ASSERT_EQ(made.size(), 2U);
  EXPECT_TRUE(first_text(made).starts_with("# Tools\n"));
  EXPECT_EQ(made[0].blocks.back(), system("S").blocks.back());
  const Messages without = with_told_tools({user("hi")}, two_tools(), true);
  ASSERT_EQ(without.size(), 2U);
  EXPECT_EQ(without[0].role, ir::Role::kSystem);
  const Messages late = with_told_tools({user("hi"), system("S")}, two_tools(), true);
  EXPECT_EQ(late.size(), 3U) << "a late system message stays where it is";
  const Messages no_place = with_told_tools({user("hi")}, two_tools(), false);
  ASSERT_EQ(no_place.size(), 1U);
  EXPECT_EQ(no_place[0].role, ir::Role::kUser);
  EXPECT_TRUE(first_text(no_place).starts_with("# Tools\n"));
}

TEST(ToldTools, WithoutToolsNothingChanges) {
  const Messages talk{system("S"), user("a"), message(ir::Role::kAssistant, {ir::Thinking{"t", "", ""}, ir::Text{"b"}}),
                      user("c"), message(ir::Role::kUser, {ir::Text{"d"}, ir::Text{"e"}})};
  EXPECT_EQ(with_told_tools(talk, {}, true), talk);
  EXPECT_EQ(with_told_tools(talk, {two_tools()[2]}, true), talk) << "hosted tools are not offered";
}

TEST(ToldTools, CallsAndResultsAreTextInTheirPlaces) {
  ir::ToolCall patch{"c2", "patch", "a \"b\"\n", ir::ToolKind::kCustom, "fs"};
  const Messages talk{user("go"),
                      message(ir::Role::kAssistant, {ir::Text{"ok"}, ir::ToolCall{"c1", "ls", "{\"p\":  1}"}, patch}),
                      result("c1", "one"), result("c2", "two"), user("more")};
  EXPECT_EQ(shown(with_told_tools(talk, {}, true)), R"(user: go|
assistant: ok
<tool_call>
{"name": "ls", "arguments": {"p":  1}}
</tool_call>
<tool_call>
{"name": "fs__patch", "arguments": {"input": "a \"b\"\n"}}
</tool_call>|
user: <tool_response>
one
</tool_response>
<tool_response>
two
</tool_response>
more|
)");
}

TEST(ToldTools, ThoughtBetweenCallsKeepsItsPlace) {
  const Messages talk{user("go"),
                      message(ir::Role::kAssistant, {ir::Thinking{"r1", "", ""}, ir::ToolCall{"1", "a", ""},
                                                     ir::Thinking{"r2", "", ""}, ir::ToolCall{"2", "b", ""}})};
  EXPECT_EQ(shown(with_told_tools(talk, {}, true)), R"(user: go|
assistant: [r1]<tool_call>
{"name": "a", "arguments": {}}
</tool_call>|
assistant: [r2]<tool_call>
{"name": "b", "arguments": {}}
</tool_call>|
)");
}

TEST(ToldTools, TheConversationGrowsAtItsEnd) {
  Messages talk{system("S"), user("go"), message(ir::Role::kAssistant, {ir::ToolCall{"c1", "ls", "{}"}}),
                result("c1", "one")};
  std::string before;
  for (const ir::Message& next : {message(ir::Role::kAssistant, {ir::Text{"done"}}), user("x"), system("late")}) {
    const std::string text = shown(with_told_tools(talk, two_tools(), true));
    EXPECT_EQ(text.substr(0, before.size()), before);
    before = text;
    talk.push_back(next);
  }
}

TEST(ToldTools, ATemplateThatPrintsNoToolsGetsThemAsData) {
  const auto chat = compile_template("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>",
                                     {"<s>", "</s>"});
  ASSERT_TRUE(chat.ok());
  ASSERT_FALSE((*chat)->traits().tools);
  ir::Request request;
  request.prompt =
      Messages{user("hi"), message(ir::Role::kAssistant, {ir::ToolCall{"c", "ls", "{}"}}), result("c", "r")};
  request.tools = {{"<|user|>", "", "", false}};
  const auto spans = (*chat)->render(request);
  ASSERT_TRUE(spans.ok());
  std::string ours;
  std::string all;
  for (const Span& span : *spans) {
    all += span.text;
    if (span.origin == Origin::kTemplate) ours += span.text;
  }
  EXPECT_EQ(ours, "<|system|><|user|><|assistant|><|user|><|assistant|>");
  EXPECT_NE(all.find(R"({"name":"<|user|>"})"), std::string::npos);
  EXPECT_NE(all.find("<tool_response>\nr\n</tool_response>"), std::string::npos);
}

constexpr const char* kSystemless =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";

TEST(ToldTools, WhereTheTemplateHasNoSystemMessageTheUsersHoldsThem) {
  const auto chat = compile_template(kSystemless, {"<s>", "</s>"});
  ASSERT_TRUE(chat.ok());
  ir::Request request;
  request.prompt = Messages{user("go")};
  request.tools = two_tools();
  const auto spans = (*chat)->render(request);
  ASSERT_TRUE(spans.ok());
  std::string text;
  for (const Span& span : *spans) text += span.text;
  EXPECT_TRUE(text.starts_with("<|user|># Tools\n")) << text;
  EXPECT_TRUE(text.ends_with("\n\ngo<|end|><|assistant|>")) << text;
}

TEST(ToldTools, WhoNeedsTelling) {
  const Messages plain{user("hi")};
  const Messages calling{user("hi"), message(ir::Role::kAssistant, {ir::ToolCall{"c", "ls", "{}"}}), result("c", "r")};
  for (const bool prints_calls : {false, true}) {
    EXPECT_FALSE(needs_telling(plain, {}, prints_calls));
    EXPECT_FALSE(needs_telling(plain, {two_tools()[2]}, prints_calls));
    EXPECT_TRUE(needs_telling(plain, two_tools(), prints_calls));
    EXPECT_EQ(needs_telling(calling, {}, prints_calls), !prints_calls);
  }
}

TEST(ToldTools, TurnsAlternateSoThatStrictTemplatesTakeThem) {
  // As harnesses send it over Messages, and the same over Chat: results, and what is said behind them, are one turn.
  const auto call = message(ir::Role::kAssistant, {ir::ToolCall{"1", "a", ""}, ir::ToolCall{"2", "b", ""}});
  const Messages one_turn{user("go"), call,
                          message(ir::Role::kUser, {ir::ToolResult{"1", "", {ir::Text{"x"}}, false},
                                                    ir::ToolResult{"2", "", {ir::Text{"y"}}, false}, ir::Text{"on"}})};
  const Messages three{user("go"), call, result("1", "x"), result("2", "y"), user("on")};
  EXPECT_EQ(shown(with_told_tools(one_turn, {}, true)), shown(with_told_tools(three, {}, true)));
  const Messages told = with_told_tools(three, two_tools(), false);
  for (std::size_t i = 1; i < told.size(); ++i) EXPECT_NE(told[i].role, told[i - 1].role);
}

}  // namespace
}  // namespace kvern::prompt
