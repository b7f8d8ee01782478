#include "prompt/thinking_switches.h"

#include <array>

namespace kvern::prompt {
namespace {

ir::Message message(ir::Role role, std::vector<ir::Content> contents) {
  ir::Message out{role, {}, {}};
  for (ir::Content& content : contents) out.blocks.push_back({std::move(content), {}});
  return out;
}

/// Two turns, the first of which has been thought about: what may be printed of that thought is a switch too.
std::vector<ir::Message> with_old_thinking() {
  return {message(ir::Role::kUser, {ir::Text{"kvern-probe-1"}}),
          message(ir::Role::kAssistant, {ir::Thinking{"kvern-probe-thought", {}, {}}, ir::Text{"kvern-probe-2"}}),
          message(ir::Role::kUser, {ir::Text{"kvern-probe-3"}})};
}

struct Switch {
  const char* name;
  bool ThinkingSwitches::* has;
  const char* one;  // two values whose prompts differ
  const char* other;
};
constexpr std::array kSwitches{
    Switch{"enable_thinking", &ThinkingSwitches::enable_thinking, "true", "false"},
    Switch{"thinking", &ThinkingSwitches::thinking, "true", "false"},
    Switch{"reasoning_effort", &ThinkingSwitches::reasoning_effort, "\"low\"", "\"high\""},
    Switch{"clear_thinking", &ThinkingSwitches::clear_thinking, "true", "false"},
    Switch{"preserve_thinking", &ThinkingSwitches::preserve_thinking, "true", "false"},
};

const char* text_of(bool value) { return value ? "true" : "false"; }

/// Templates know three efforts.
const char* effort_of(ir::Reasoning::Effort effort) {
  using Effort = ir::Reasoning::Effort;
  switch (effort) {
    case Effort::kMinimal:
    case Effort::kLow: return "\"low\"";
    case Effort::kMedium: return "\"medium\"";
    case Effort::kHigh:
    case Effort::kXhigh:
    case Effort::kMax: break;
  }
  return "\"high\"";
}

}  // namespace

ThinkingSwitches find_thinking_switches(std::string_view source, const OptionsRender& render) {
  ThinkingSwitches out;
  const auto messages = with_old_thinking();
  for (const Switch& one : kSwitches) {
    if (source.find(one.name) == std::string_view::npos) continue;
    out.*one.has = render(messages, {{one.name, one.one}}) != render(messages, {{one.name, one.other}});
  }
  return out;
}

void set_thinking(const ir::Reasoning& reasoning, const ThinkingSwitches& switches, TemplateOptions& options) {
  using Mode = ir::Reasoning::Mode;
  using History = ir::Reasoning::History;
  if (reasoning.mode != Mode::kDefault) {
    const char* const on = text_of(reasoning.mode != Mode::kOff);
    if (switches.enable_thinking) options.try_emplace("enable_thinking", on);
    if (switches.thinking) options.try_emplace("thinking", on);
  }
  if (switches.reasoning_effort) {
    if (reasoning.mode == Mode::kOff) {
      options.try_emplace("reasoning_effort", "\"low\"");  // the least there is
    } else if (reasoning.effort) {
      options.try_emplace("reasoning_effort", effort_of(*reasoning.effort));
    }
  }
  if (reasoning.history != History::kDefault) {
    const bool keep = reasoning.history == History::kKeep;
    if (switches.clear_thinking) options.try_emplace("clear_thinking", text_of(!keep));
    if (switches.preserve_thinking) options.try_emplace("preserve_thinking", text_of(keep));
  }
}

}  // namespace kvern::prompt
