#include "prompt/thinking_switches.h"

#include <gtest/gtest.h>

#include "prompt/jinja_template.h"

namespace kvern::prompt {
namespace {

using Mode = ir::Reasoning::Mode;
using History = ir::Reasoning::History;

// Cut down from published templates: the switch is theirs, the rest is not needed.
constexpr const char* kQwen =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";
constexpr const char* kDeepSeek =
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{% for m in messages %}{{ m.content }}"
    "{% endfor %}<assistant>{% if thinking %}<think>{% else %}</think>{% endif %}";
constexpr const char* kGptOss =
    "{% if not reasoning_effort is defined %}{% set reasoning_effort = 'medium' %}{% endif %}"
    "Reasoning: {{ reasoning_effort }}{% for m in messages %}{{ m.content }}{% endfor %}";
constexpr const char* kGlm =
    "{% for m in messages %}{% if m.reasoning_content and clear_thinking is defined and not clear_thinking %}"
    "[{{ m.reasoning_content }}]{% endif %}{{ m.content }}{% endfor %}";
constexpr const char* kPlain = "{# enable_thinking #}{% for m in messages %}{{ m.content }}{% endfor %}";

std::string rendered(const char* source, const ir::Reasoning& reasoning, TemplateOptions options = {}) {
  const auto made = compile_template(source, {});
  EXPECT_TRUE(made.ok());
  ir::Request request;
  request.prompt =
      std::vector<ir::Message>{{ir::Role::kUser, {}, {{ir::Text{"a"}, {}}}},
                               {ir::Role::kAssistant, {}, {{ir::Thinking{"t", {}, {}}, {}}, {ir::Text{"b"}, {}}}},
                               {ir::Role::kUser, {}, {{ir::Text{"c"}, {}}}}};
  request.reasoning = reasoning;
  request.template_options = std::move(options);
  const auto spans = (*made)->render(request);
  EXPECT_TRUE(spans.ok());
  std::string out;
  for (const Span& span : *spans) out += span.text;
  return out;
}

ir::Reasoning mode(Mode mode) {
  ir::Reasoning out;
  out.mode = mode;
  return out;
}
ir::Reasoning effort(ir::Reasoning::Effort effort) {
  ir::Reasoning out = mode(Mode::kOn);
  out.effort = effort;
  return out;
}
ir::Reasoning history(History history) {
  ir::Reasoning out;
  out.history = history;
  return out;
}

TEST(ThinkingSwitches, AWishTurnsTheTemplatesOwnSwitch) {
  const std::string off = "<user>a<assistant>b<user>c<assistant><think>\n\n</think>\n\n";
  EXPECT_EQ(rendered(kQwen, {}), "<user>a<assistant>b<user>c<assistant>");
  EXPECT_EQ(rendered(kQwen, mode(Mode::kOn)), rendered(kQwen, {}));
  EXPECT_EQ(rendered(kQwen, mode(Mode::kOff)), off);
  EXPECT_EQ(rendered(kDeepSeek, {}), "abc<assistant></think>");
  EXPECT_EQ(rendered(kDeepSeek, mode(Mode::kAdaptive)), "abc<assistant><think>");
  EXPECT_EQ(rendered(kDeepSeek, mode(Mode::kOff)), "abc<assistant></think>");
}

TEST(ThinkingSwitches, EffortsAreThoseThatTemplatesKnow) {
  EXPECT_EQ(rendered(kGptOss, {}), "Reasoning: mediumabc");
  EXPECT_EQ(rendered(kGptOss, effort(ir::Reasoning::Effort::kMinimal)), "Reasoning: lowabc");
  EXPECT_EQ(rendered(kGptOss, effort(ir::Reasoning::Effort::kMax)), "Reasoning: highabc");
  EXPECT_EQ(rendered(kGptOss, mode(Mode::kOff)), "Reasoning: lowabc");
}

TEST(ThinkingSwitches, OldThinkingIsKeptWhereItIsAskedFor) {
  EXPECT_EQ(rendered(kGlm, history(History::kKeep)), "a[t]bc");
  EXPECT_EQ(rendered(kGlm, history(History::kDrop)), "abc");
  EXPECT_EQ(rendered(kGlm, {}), "abc");
}

TEST(ThinkingSwitches, WhatTheClientSetItselfStays) {
  EXPECT_EQ(rendered(kQwen, mode(Mode::kOff), {{"enable_thinking", "true"}}), rendered(kQwen, {}));
}

TEST(ThinkingSwitches, AMereWordIsNoSwitch) {
  const auto render = [](const std::vector<ir::Message>&, const TemplateOptions&) { return std::string("same"); };
  EXPECT_EQ(find_thinking_switches(kPlain, render), ThinkingSwitches{});
  EXPECT_EQ(rendered(kPlain, mode(Mode::kOff)), "abc");
}

}  // namespace
}  // namespace kvern::prompt
