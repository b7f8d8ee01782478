#include "ir/usage_sum.h"

namespace kvern::ir {

void UsageSum::add(std::uint32_t choice, const Usage& usage) {
  total_.completion_tokens += usage.completion_tokens;
  total_.reasoning_tokens += usage.reasoning_tokens;
  if (choice % choices_per_prompt_ != 0) return;
  total_.prompt_tokens += usage.prompt_tokens;
  cached_known_ = cached_known_ && usage.cached_tokens.has_value();
  total_.cached_tokens =
      cached_known_ ? std::optional(total_.cached_tokens.value_or(0) + *usage.cached_tokens) : std::nullopt;
}

}  // namespace kvern::ir
