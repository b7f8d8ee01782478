// From the one name by which the model knows a tool back to what the client calls it: its kind, namespace and name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvern::api {

/// Each kind is called and answered by items of its own.
enum class ItemTool : std::uint8_t { kFunction, kCustom, kToolSearch };

struct ToolName {
  ItemTool tool = ItemTool::kFunction;
  std::string space;  // empty: none
  std::string name;
  bool operator==(const ToolName&) const = default;
};

/// The tools of one request. A value.
class ToolNames {
 public:
  /// False where `prompt_name` is taken by another tool.
  bool add(const std::string& prompt_name, ToolName tool) {
    return by_prompt_name_.try_emplace(prompt_name, tool).first->second == tool;
  }
  bool contains(const std::string& prompt_name) const { return by_prompt_name_.contains(prompt_name); }
  /// A name the model made up is a function of that name: the client says what is wrong with it.
  ToolName find(const std::string& prompt_name) const {
    const auto found = by_prompt_name_.find(prompt_name);
    return found == by_prompt_name_.end() ? ToolName{ItemTool::kFunction, {}, prompt_name} : found->second;
  }

 private:
  std::unordered_map<std::string, ToolName> by_prompt_name_;
};

}  // namespace kvern::api
