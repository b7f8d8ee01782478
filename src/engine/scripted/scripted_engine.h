// An engine that answers from a script: for tests and benchmarks of everything above the Engine port. Times are kept by
// one thread of its own; everything due within a millisecond leaves in one batch per sink, as a real engine's step
// does.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/engine.h"
#include "engine/scripted/script.h"

namespace kvern::engine {

struct ScriptedOptions {
  ModelInfo model;
  /// Tokenises `text` lines; called on the engine's thread.
  std::function<Tokens(std::string_view)> encode;
  /// Requests under way at once; one more is kOverloaded.
  std::size_t active_max = 16'384;
};

/// Every request is "running" at once; cached tokens are 0.
std::unique_ptr<Engine> make_scripted_engine(ScriptedOptions options, std::vector<ScriptLine> script);

}  // namespace kvern::engine
