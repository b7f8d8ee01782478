#include "prompt/thinking_switches.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "prompt/jinja_template.h"

namespace kvern::prompt {
namespace {

using Effort = ir::Reasoning::Effort;
using History = ir::Reasoning::History;
using Mode = ir::Reasoning::Mode;

ir::Reasoning wish(Mode mode, std::optional<Effort> effort = {}, std::optional<std::uint32_t> budget = {},
                   History history = History::kDefault) {
  ir::Reasoning out;
  out.mode = mode;
  out.effort = effort;
  out.budget_tokens = budget;
  out.history = history;
  return out;
}

constexpr std::string_view kMessages = "{% for m in messages %}{{ m.content }}{% endfor %}";

std::shared_ptr<const ChatTemplate> compiled(std::string_view source) {
  auto made = compile_template(source, {"<s>", "</s>"});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? *made : nullptr;
}

std::string rendered(const ChatTemplate& chat, const ir::Reasoning& reasoning, const TemplateOptions& options = {}) {
  const auto one = [](ir::Role role, std::vector<ir::Content> contents) {
    ir::Message out{role, "", {}};
    for (ir::Content& content : contents) out.blocks.push_back({std::move(content), std::nullopt});
    return out;
  };
  ir::Request request;
  request.prompt =
      std::vector<ir::Message>{one(ir::Role::kUser, {ir::Text{"q"}}),
                               one(ir::Role::kAssistant, {ir::Thinking{"old-thought", "", ""}, ir::Text{"a"}}),
                               one(ir::Role::kUser, {ir::Text{"r"}})};
  request.reasoning = reasoning;
  request.template_options = options;
  const auto spans = chat.render(request);
  if (!spans.ok()) return spans.error().message;
  std::string text;
  for (const Span& span : *spans) text += span.text;
  return text;
}

/// What the last part of a template prints for a wish.
std::string told(const std::string& tail, const ir::Reasoning& reasoning, const TemplateOptions& options = {}) {
  const auto chat = compiled(std::string(kMessages) + "|" + tail);
  const std::string text = rendered(*chat, reasoning, options);
  return text.substr(text.find('|') + 1);
}

TEST(ThinkingSwitches, ModesSetTheSwitchThatTheTemplateHas) {
  const std::string qwen = "{{ 'unset' if enable_thinking is not defined else enable_thinking }}";
  const std::string deepseek = "{{ 'unset' if thinking is not defined else thinking }}";
  const std::string minimax = "{{ 'unset' if thinking_mode is not defined else thinking_mode }}";
  struct Case {
    const std::string& tail;
    Mode mode;
    const char* printed;
  };
  for (const Case& each : {Case{qwen, Mode::kDefault, "unset"}, Case{qwen, Mode::kOff, "False"},
                           Case{qwen, Mode::kOn, "True"}, Case{qwen, Mode::kAdaptive, "True"},
                           Case{deepseek, Mode::kDefault, "unset"}, Case{deepseek, Mode::kOff, "False"},
                           Case{deepseek, Mode::kAdaptive, "True"}, Case{minimax, Mode::kOff, "disabled"},
                           Case{minimax, Mode::kOn, "enabled"}, Case{minimax, Mode::kAdaptive, "adaptive"}}) {
    EXPECT_EQ(told(each.tail, wish(each.mode)), each.printed) << each.tail;
  }
}

TEST(ThinkingSwitches, WhatTheClientSetItselfStays) {
  const std::string qwen = "{{ 'unset' if enable_thinking is not defined else enable_thinking }}";
  EXPECT_EQ(told(qwen, wish(Mode::kOn), {{"enable_thinking", "false"}}), "False");
  // By the name of another family's switch.
  const std::string deepseek = "{{ 'unset' if thinking is not defined else thinking }}";
  EXPECT_EQ(told(deepseek, wish(Mode::kDefault), {{"enable_thinking", "true"}}), "True");
  EXPECT_EQ(told(qwen, wish(Mode::kDefault), {{"thinking", "false"}}), "False");
}

TEST(ThinkingSwitches, EffortIsSaidInTheTemplatesWords) {
  const std::string gpt_oss =
      "{% if reasoning_effort is not defined %}{% set reasoning_effort = \"medium\" %}{% endif %}{{ reasoning_effort "
      "}}";
  const std::string hunyuan =
      "{% if not reasoning_effort is defined %}{% set reasoning_effort = 'no_think' %}"
      "{% elif reasoning_effort not in ['high', 'low', 'no_think'] %}{{ raise_exception('no') }}{% endif %}"
      "{{ reasoning_effort }}";
  const std::string kimi =
      "{% if thinking_effort is undefined %}{% set thinking_effort = 'max' %}{% endif %}"
      "{% if thinking_effort not in ['low', 'high', 'max'] %}{{ raise_exception('no') }}{% endif %}{{ thinking_effort "
      "}}";
  struct Case {
    const std::string& tail;
    ir::Reasoning wish;
    const char* printed;
  };
  for (const Case& each :
       {Case{gpt_oss, wish(Mode::kDefault), "medium"}, Case{gpt_oss, wish(Mode::kOn, Effort::kMinimal), "low"},
        Case{gpt_oss, wish(Mode::kOn, Effort::kMedium), "medium"},
        Case{gpt_oss, wish(Mode::kAdaptive, Effort::kMax), "high"}, Case{gpt_oss, wish(Mode::kOff), "low"},
        Case{hunyuan, wish(Mode::kDefault), "no_think"}, Case{hunyuan, wish(Mode::kOn, Effort::kMedium), "high"},
        Case{hunyuan, wish(Mode::kOn, Effort::kMinimal), "low"}, Case{hunyuan, wish(Mode::kOff), "no_think"},
        Case{kimi, wish(Mode::kDefault, Effort::kXhigh), "max"}, Case{kimi, wish(Mode::kDefault), "max"}}) {
    EXPECT_EQ(told(each.tail, each.wish), each.printed) << each.tail;
  }
}

TEST(ThinkingSwitches, BudgetAndHistory) {
  const std::string seed = "{{ thinking_budget if thinking_budget is defined else 'unset' }}";
  EXPECT_EQ(told(seed, wish(Mode::kOn, {}, 2048)), "2048");
  EXPECT_EQ(told(seed, wish(Mode::kOff)), "0");
  EXPECT_EQ(told(seed, wish(Mode::kOn)), "unset");
  const auto history = [&](const std::string& condition, History which) {
    const std::string tail = "{% for m in messages %}{% if m.reasoning_content and (" + condition +
                             ") %}{{ m.reasoning_content }}{% endif %}{% endfor %}";
    return told(tail, wish(Mode::kDefault, {}, {}, which));
  };
  for (const char* condition : {"clear_thinking is defined and not clear_thinking", "preserve_thinking",
                                "keep_past_thinking", "drop_thinking is defined and not drop_thinking"}) {
    EXPECT_EQ(history(condition, History::kDefault), "") << condition;
    EXPECT_EQ(history(condition, History::kKeep), "old-thought") << condition;
    EXPECT_EQ(history(condition, History::kDrop), "") << condition;
  }
  EXPECT_EQ(history("not clear_thinking", History::kDrop), "");
}

TEST(ThinkingSwitches, AWordThatIsOnlyMentionedIsNoSwitch) {
  const auto chat = compiled(std::string(kMessages) + "{# enable_thinking reasoning_effort thinking_budget #}");
  EXPECT_EQ(rendered(*chat, wish(Mode::kOff, Effort::kHigh, 2048, History::kKeep)), rendered(*chat, {}));
}

/// Switches of published models, by what changes in their prompts.
TEST(ThinkingSwitches, OfPublishedTemplates) {
  struct Case {
    const char* model;
    ir::Reasoning wish;
    const char* holds;  // nullptr: nothing may change
  };
  for (const Case& each : {Case{"Qwen-Qwen3-0.6B", wish(Mode::kOff), "<think>\n\n</think>"},
                           Case{"Qwen-Qwen3-0.6B", wish(Mode::kOn, Effort::kHigh), nullptr},
                           Case{"deepseek-ai-DeepSeek-V3.1", wish(Mode::kOn), "<think>"},
                           Case{"openai-gpt-oss-120b", wish(Mode::kOn, Effort::kXhigh), "Reasoning: high"},
                           Case{"tencent-Hy3", wish(Mode::kOn, Effort::kLow), "reasoning_effort:low"},
                           Case{"MiniMax-M3", wish(Mode::kOff), ""},
                           Case{"GLM-4.7-Flash", wish(Mode::kDefault, {}, {}, History::kKeep), "old-thought"},
                           Case{"meta-llama-Llama-3.1-8B-Instruct", wish(Mode::kOff, Effort::kLow), nullptr}}) {
    const auto path =
        std::filesystem::path(KVERN_CACHE) / "llama.cpp/models/templates" / (std::string(each.model) + ".jinja");
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const auto chat = compiled(std::string{std::istreambuf_iterator<char>(file), {}});
    ASSERT_NE(chat, nullptr) << each.model;
    const std::string plain = rendered(*chat, {});
    const std::string changed = rendered(*chat, each.wish);
    if (each.holds == nullptr) {
      EXPECT_EQ(changed, plain) << each.model;
    } else {
      EXPECT_NE(changed, plain) << each.model;
      EXPECT_NE(changed.find(each.holds), std::string::npos) << each.model << "\n" << changed;
    }
  }
}

}  // namespace
}  // namespace kvern::prompt
