// A compiled template and one bounded run of it: the edge at which the engine's exceptions end. Private to this room.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "jinja/runtime.h"
#include "prompt/chat_template.h"

namespace kvern::prompt {

/// Immutable after compile; thread-safe.
class JinjaProgram {
 public:
  static Result<std::shared_ptr<const JinjaProgram>> compile(std::string_view source);

  /// Sets the variables of a run. Called inside its bounds.
  using Setup = std::function<void(jinja::context&)>;
  /// Runs with `input_bytes` of conversation: the budget grows with it.
  Result<std::vector<Span>> run(const Setup& setup, const RenderLimits& limits, std::size_t input_bytes) const;

 private:
  JinjaProgram() = default;
  jinja::program program_;
  std::shared_ptr<std::string> source_;
};

}  // namespace kvern::prompt
