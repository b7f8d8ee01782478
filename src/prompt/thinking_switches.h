// The switches a chat template has for thinking, under the many names that model makers gave them, and what a request's
// wishes mean in them. Found by trial renderings: a name counts only where its value changes what is printed, so a
// template that mentions a word has no switch by that. Private to this room.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/request.h"

namespace kvern::prompt {

/// Options for a template: name to JSON text of a scalar.
using TemplateOptions = std::map<std::string, std::string>;

/// Renders a conversation with options; empty where the template refuses.
using OptionsRender = std::function<std::string(const std::vector<ir::Message>&, const TemplateOptions&)>;

struct ThinkingSwitches {
  /// A name and the JSON of its values.
  struct OnOff {
    std::string name;
    std::string on;
    std::string off;
    std::string adaptive;
  };
  std::vector<OnOff> modes;
  /// The switch for how much, and its word for each effort; empty: none.
  std::string effort;
  std::map<ir::Reasoning::Effort, std::string> effort_words;
  std::string effort_off;  // its word for not at all, or for as little as it knows
  std::string budget;      // takes a number of tokens, 0 for none; empty: none
  /// For thoughts of earlier turns: a name, and its value that keeps them.
  std::vector<std::pair<std::string, bool>> keeps;
};

/// `source` says which names are worth a trial; none for most templates, at most 40 for one with every switch.
ThinkingSwitches find_thinking_switches(std::string_view source, const OptionsRender& render);

/// Adds to `options` what `wish` means; an option that the client set itself stays. A client's `enable_thinking` or
/// `thinking` is understood by templates with a switch of another name too.
void set_thinking(const ir::Reasoning& wish, const ThinkingSwitches& switches, TemplateOptions& options);

}  // namespace kvern::prompt
