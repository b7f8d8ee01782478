// What of a model file is needed without its weights: vocabulary and chat template.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "prompt/chat_template.h"
#include "prompt/gguf_check.h"
#include "prompt/tokenizer.h"

namespace kvern::app {

struct Vocabulary {
  std::string path;
  std::shared_ptr<const prompt::Tokenizer> tokenizer;
  std::shared_ptr<const prompt::ChatTemplate> chat_template;
};

/// Takes tenths of a second. Errors name the file and say what to do; `flag` is how it was named, for them.
Result<Vocabulary> load_vocabulary(const std::string& path, std::string_view flag);
/// The same of a file that has been looked into.
Result<Vocabulary> load_vocabulary(const std::string& path, const prompt::GgufInfo& info);

}  // namespace kvern::app
