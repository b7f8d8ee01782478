// A served model: its names, and what turns a request into tokens and tokens into an answer. Built once at start-up by
// the composition root; immutable and shared by all loops.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "prompt/chat_template.h"
#include "prompt/tokenizer.h"

namespace kvern::pipeline {

struct Model {
  std::string name;
  std::vector<std::string> aliases;  // globs
  std::uint32_t context_tokens = 0;
  std::shared_ptr<const prompt::Tokenizer> tokenizer;
  std::shared_ptr<const prompt::ChatTemplate> chat_template;
  std::shared_ptr<engine::Engine> engine;
};

/// Every model that is served; at least one.
class ModelSet {
 public:
  explicit ModelSet(std::vector<std::shared_ptr<const Model>> models);
  /// By exact name, then by alias in order; an empty name is the only served model. nullptr when there is none.
  std::shared_ptr<const Model> find(std::string_view name) const;
  const std::vector<std::shared_ptr<const Model>>& all() const { return models_; }

 private:
  std::vector<std::shared_ptr<const Model>> models_;
};

}  // namespace kvern::pipeline
