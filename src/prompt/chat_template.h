// The ChatTemplate port: a conversation to the text a model was trained on, each piece with its origin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/request.h"
#include "prompt/tokenizer.h"

namespace kvern::prompt {

/// What a rendering may spend. A template of a model file is data, hostile until checked: it runs sealed (no files, no
/// network, no clock but the date asked for) and ends with an error that names the bound it hit.
struct RenderLimits {
  std::uint64_t steps = 20'000'000;
  std::uint64_t bytes = 256U << 20U;
  std::uint32_t depth = 200;
  std::uint32_t milliseconds = 5'000;
};

struct TemplateTraits {
  bool tools = false;  // prints the tools it is given
  bool system = true;  // has a place for a system message
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// Renders messages and tools with the prompt for the assistant's next message. The request must hold messages.
  virtual Result<std::vector<Span>> render(const ir::Request& request) const = 0;
  virtual const TemplateTraits& traits() const = 0;
};

}  // namespace kvern::prompt
