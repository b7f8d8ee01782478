// The switches by which chat templates turn thinking on and off, found out by trying, and what a request's wishes set
// them to. Private to this room.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/request.h"
#include "prompt/tokenizer.h"

namespace kvern::prompt {

/// Options of a template: name to JSON text.
using TemplateOptions = std::map<std::string, std::string>;

/// Which a template has; without any, it thinks as it always does.
struct ThinkingSwitches {
  bool enable_thinking = false;    // Qwen3, GLM: a boolean
  bool thinking = false;           // DeepSeek, Granite, Kimi: a boolean
  bool reasoning_effort = false;   // gpt-oss: low, medium or high
  bool clear_thinking = false;     // GLM: true drops the thinking of earlier turns
  bool preserve_thinking = false;  // Qwen3.6: true keeps it
  bool operator==(const ThinkingSwitches&) const = default;
};

/// Renders a conversation with options; empty where the template refuses.
using OptionsRender = std::function<std::string(const std::vector<ir::Message>&, const TemplateOptions&)>;

/// Two trials for each switch whose name stands in `source`: one that changes nothing is none.
ThinkingSwitches find_thinking_switches(std::string_view source, const OptionsRender& render);

/// Adds to `options` what `reasoning` asks for. What the client set itself (`chat_template_kwargs`) stays.
void set_thinking(const ir::Reasoning& reasoning, const ThinkingSwitches& switches, TemplateOptions& options);

}  // namespace kvern::prompt
