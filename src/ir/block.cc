#include "ir/block.h"

namespace kvern::ir {

const char* to_string(Role role) noexcept {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kDeveloper: return "developer";
    case Role::kUser: return "user";
    case Role::kAssistant: return "assistant";
    case Role::kTool: return "tool";
  }
  return "user";
}

const char* to_string(ToolKind kind) noexcept {
  switch (kind) {
    case ToolKind::kFunction: return "function";
    case ToolKind::kCustom: return "custom";
    case ToolKind::kHosted: return "hosted";
  }
  return "function";
}

std::string prompt_name(std::string_view tool_namespace, std::string_view name) {
  if (tool_namespace.empty()) return std::string(name);
  std::string out(tool_namespace);
  out += "__";
  out += name;
  return out;
}

}  // namespace kvern::ir
