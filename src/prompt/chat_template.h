// The ChatTemplate port: a conversation to the text a model was trained on, each piece with its origin.
#pragma once

#include <cstdint>
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
  std::uint64_t steps = 20'000'000;  // statements and expressions run, values walked
  /// Strings made and values alive. A rendering gets less when its conversation is small: 16 MB and 32 times its text.
  std::uint64_t bytes = 256U << 20U;
  std::uint32_t depth = 200;         // of statements, expressions and values inside one another
  std::uint32_t milliseconds = 700;  // of the thread's CPU time
};

struct TemplateTraits {
  bool tools = false;  // prints the tools it is given; otherwise they are told in a system message
  bool system = true;  // has a place for a system message
  /// For the start-up banner: what is odd about this template; empty: nothing.
  std::string warning;
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// Renders messages and tools with the prompt for the assistant's next message. The request must hold messages. Its
  /// wishes about thinking set the template's own switches, where it has them.
  virtual Result<std::vector<Span>> render(const ir::Request& request) const = 0;
  virtual const TemplateTraits& traits() const = 0;
};

}  // namespace kvern::prompt
