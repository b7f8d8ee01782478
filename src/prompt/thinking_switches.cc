#include "prompt/thinking_switches.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>

namespace kvern::prompt {
namespace {

using Effort = ir::Reasoning::Effort;
using History = ir::Reasoning::History;
using Mode = ir::Reasoning::Mode;

struct ModeNames {
  const char* name;
  const char* on;
  const char* off;
  const char* adaptive;
};
constexpr std::array kModes{
    ModeNames{"enable_thinking", "true", "false", "true"},                      // Qwen3, GLM-4.5, Gemma 4, Nemotron
    ModeNames{"thinking", "true", "false", "true"},                             // DeepSeek V3.1, Granite, Kimi
    ModeNames{"thinking_mode", "\"enabled\"", "\"disabled\"", "\"adaptive\""},  // MiniMax
};
constexpr std::array kEffortNames{"reasoning_effort", "thinking_effort"};  // gpt-oss, Hunyuan; Kimi
constexpr std::array kBudgetNames{"thinking_budget"};                      // Seed-OSS

struct KeepName {
  const char* name;
  bool keep;
};
constexpr std::array kKeeps{
    KeepName{"clear_thinking", false},             // GLM
    KeepName{"preserve_thinking", true},           // Qwen3.6, Laguna
    KeepName{"preserved_thinking", true},          // Hunyuan
    KeepName{"keep_past_thinking", true},          // LFM
    KeepName{"truncate_history_thinking", false},  // Nemotron
    KeepName{"drop_thinking", false},              // DeepSeek V4
};

constexpr std::array kEfforts{Effort::kMinimal, Effort::kLow,   Effort::kMedium,
                              Effort::kHigh,    Effort::kXhigh, Effort::kMax};

std::string quoted(std::string_view word) { return '"' + std::string(word) + '"'; }
const char* json_of(bool value) { return value ? "true" : "false"; }

ir::Message message(ir::Role role, std::vector<ir::Content> contents) {
  ir::Message out{role, "", {}};
  for (ir::Content& content : contents) out.blocks.push_back({std::move(content), std::nullopt});
  return out;
}

std::vector<ir::Message> greeting() { return {message(ir::Role::kUser, {ir::Text{"kvern-probe-text"}})}; }

std::vector<ir::Message> past_thought() {
  return {message(ir::Role::kUser, {ir::Text{"kvern-probe-text"}}),
          message(ir::Role::kAssistant, {ir::Thinking{"kvern-probe-thought", "", ""}, ir::Text{"kvern-probe-answer"}}),
          message(ir::Role::kUser, {ir::Text{"kvern-probe-more"}})};
}

class Probe {
 public:
  Probe(std::string_view source, const OptionsRender& render) : source_(source), render_(render) {}

  ThinkingSwitches run() {
    find_modes();
    find_effort();
    find_budget();
    find_keeps();
    return std::move(out_);
  }

 private:
  bool mentions(std::string_view text) const { return source_.find(text) != std::string_view::npos; }
  bool quotes(std::string_view word) const {
    return mentions('"' + std::string(word) + '"') || mentions('\'' + std::string(word) + '\'');
  }

  /// What is printed with one option, thinking being on.
  std::string with(const std::vector<ir::Message>& messages, const std::string& name, const std::string& json) const {
    TemplateOptions options{{name, json}};
    for (const auto& mode : out_.modes) options.emplace(mode.name, mode.on);
    return render_(messages, options);
  }
  bool differs(const std::vector<ir::Message>& messages, const std::string& name, const std::string& one,
               const std::string& other) const {
    const std::string first = with(messages, name, one);
    const std::string second = with(messages, name, other);
    return !first.empty() && !second.empty() && first != second;
  }

  void find_modes() {
    // Each alone: of two names for one thing, one that is on could hide the other.
    std::vector<ThinkingSwitches::OnOff> found;
    for (const ModeNames& each : kModes) {
      if (mentions(each.name) && differs(greeting(), each.name, each.on, each.off))
        found.push_back({each.name, each.on, each.off, each.adaptive});
    }
    out_.modes = std::move(found);
  }

  /// The words a template takes: those everybody knows and those it has in quotes, less those it refuses.
  void find_effort() {
    for (const std::string name : kEffortNames) {
      if (!mentions(name)) continue;
      std::map<Effort, std::string> words;
      std::map<std::string, std::string> printed;
      for (const Effort effort : kEfforts) {
        const std::string word = to_string(effort);
        const bool common = effort == Effort::kLow || effort == Effort::kMedium || effort == Effort::kHigh;
        if (!common && !quotes(word)) continue;
        std::string text = with(greeting(), name, quoted(word));
        if (text.empty()) continue;
        words.emplace(effort, word);
        printed.emplace(word, std::move(text));
      }
      std::string off;
      for (const std::string word : {"none", "no_think"}) {
        if (!off.empty() || !quotes(word)) continue;
        std::string text = with(greeting(), name, quoted(word));
        if (text.empty()) continue;
        off = word;
        printed.emplace(word, std::move(text));
      }
      const bool matters =
          std::ranges::any_of(printed, [&](const auto& each) { return each.second != printed.begin()->second; });
      if (!matters) continue;
      out_.effort = name;
      out_.effort_off = !off.empty() || words.empty() ? off : words.begin()->second;
      if (!words.empty()) {
        for (const Effort effort : kEfforts) out_.effort_words.emplace(effort, nearest(effort, words));
      }
      return;
    }
  }

  /// Of two words as near, the one for more.
  static std::string nearest(Effort wanted, const std::map<Effort, std::string>& words) {
    const auto distance = [&](const auto& word) {
      const int away = static_cast<int>(word.first) - static_cast<int>(wanted);
      return 2 * std::abs(away) - (away > 0 ? 1 : 0);
    };
    return std::ranges::min_element(words, {}, distance)->second;
  }

  void find_budget() {
    for (const std::string name : kBudgetNames) {
      if (out_.budget.empty() && mentions(name) && differs(greeting(), name, "512", "0")) out_.budget = name;
    }
  }

  void find_keeps() {
    for (const KeepName& each : kKeeps) {
      if (mentions(each.name) && differs(past_thought(), each.name, "true", "false"))
        out_.keeps.emplace_back(each.name, each.keep);
    }
  }

  std::string_view source_;
  const OptionsRender& render_;
  ThinkingSwitches out_;
};

/// What a client that knows templates asked for itself, by either of the two usual names.
std::optional<Mode> asked_by_name(const TemplateOptions& options) {
  for (const char* name : {"enable_thinking", "thinking"}) {
    const auto option = options.find(name);
    if (option == options.end()) continue;
    if (option->second == "true") return Mode::kOn;
    if (option->second == "false") return Mode::kOff;
  }
  return std::nullopt;
}

}  // namespace

ThinkingSwitches find_thinking_switches(std::string_view source, const OptionsRender& render) {
  return Probe(source, render).run();
}

void set_thinking(const ir::Reasoning& wish, const ThinkingSwitches& switches, TemplateOptions& options) {
  const Mode mode = asked_by_name(options).value_or(wish.mode);
  for (const auto& each : switches.modes) {
    if (mode == Mode::kOn) options.emplace(each.name, each.on);
    if (mode == Mode::kOff) options.emplace(each.name, each.off);
    if (mode == Mode::kAdaptive) options.emplace(each.name, each.adaptive);
  }
  if (!switches.effort.empty()) {
    if (mode == Mode::kOff) {
      if (!switches.effort_off.empty()) options.emplace(switches.effort, quoted(switches.effort_off));
    } else if (wish.effort && switches.effort_words.contains(*wish.effort)) {
      options.emplace(switches.effort, quoted(switches.effort_words.at(*wish.effort)));
    }
  }
  if (!switches.budget.empty()) {
    if (mode == Mode::kOff) {
      options.emplace(switches.budget, "0");
    } else if (wish.budget_tokens) {
      options.emplace(switches.budget, std::to_string(*wish.budget_tokens));
    }
  }
  if (wish.history == History::kDefault) return;
  for (const auto& [name, keep] : switches.keeps)
    options.emplace(name, json_of((wish.history == History::kKeep) == keep));
}

}  // namespace kvern::prompt
