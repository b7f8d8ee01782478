// A served model: its names, and what turns a request into tokens and tokens into an answer. Built by the composition
// root; immutable and shared by all loops.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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
  std::string longer_context;     // how to get one, behind "or" in an error: "serve with a larger --ctx"; may be empty
  std::string parser = "hermes";  // family of the answers of a chat: hermes or plain
  std::shared_ptr<const prompt::Tokenizer> tokenizer;
  std::shared_ptr<const prompt::ChatTemplate> chat_template;
  std::shared_ptr<engine::Engine> engine;
};

/// Every model that is served now. Thread-safe.
class ModelSet {
 public:
  explicit ModelSet(std::vector<std::shared_ptr<const Model>> models) : models_(std::move(models)) {}
  /// Those of workers come and go. A request goes on with the model it began with.
  void replace(std::vector<std::shared_ptr<const Model>> models);
  /// By exact name, then by alias in order; an empty name is the only served model. nullptr when there is none.
  std::shared_ptr<const Model> find(std::string_view name) const;
  /// A snapshot; empty while no worker has been reached yet.
  std::vector<std::shared_ptr<const Model>> all() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Model>> models_;  // guarded by mutex_
};

}  // namespace kvern::pipeline
