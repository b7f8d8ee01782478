#include "ir/request.h"

namespace kvern::ir {

const char* to_string(Reasoning::Effort effort) noexcept {
  switch (effort) {
    case Reasoning::Effort::kMinimal: return "minimal";
    case Reasoning::Effort::kLow: return "low";
    case Reasoning::Effort::kMedium: return "medium";
    case Reasoning::Effort::kHigh: return "high";
    case Reasoning::Effort::kXhigh: return "xhigh";
    case Reasoning::Effort::kMax: return "max";
  }
  return "medium";
}

}  // namespace kvern::ir
