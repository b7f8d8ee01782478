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

}  // namespace kvern::ir
