// ChatTemplate over the vendored Jinja engine: compiled once, rendered by any number of threads. The engine has no
// loader, no files and no attributes beyond the values it is given; RenderLimits are counted inside it (third_party/
// jinja/patches). Every piece of output carries its origin: what a client wrote stays data through concatenation,
// filters and JSON, so the tokenizer never finds a special token in it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "prompt/chat_template.h"
#include "prompt/gguf_check.h"

namespace kvern::prompt {

/// Special tokens that templates print themselves, as they are spelt; empty where the model has none.
struct TemplateTokens {
  std::string bos;
  std::string eos;
};

/// What a model without a template gets: ChatML, tools printed as Qwen's models were taught them.
extern const char* const kDefaultTemplate;

/// Compiles `source` and finds out by trial renderings what it takes (2-40 ms). kInvalidRequest for a template that
/// does not compile, with the place, or that goes over a bound while it is tried.
Result<std::shared_ptr<const ChatTemplate>> compile_template(std::string_view source, const TemplateTokens& tokens,
                                                             const RenderLimits& limits = {});

/// The template of a checked model file, or `override_text` if that is not empty. A model without one gets
/// kDefaultTemplate, and traits().warning says so.
Result<std::shared_ptr<const ChatTemplate>> load_template(const GgufInfo& model, std::string_view override_text = {},
                                                          const RenderLimits& limits = {});
Result<std::shared_ptr<const ChatTemplate>> load_template(const std::filesystem::path& model,
                                                          std::string_view override_text = {},
                                                          const RenderLimits& limits = {});

}  // namespace kvern::prompt
