// Tokenizer over the vocabulary of a GGUF file (llama.cpp's, vendored): ids are those of llama.cpp for the same text,
// with one difference that is the point of it: which special tokens may appear is decided by who wrote the text.
//
//   template text   every special token spelt inside it counts (not across a border to data)
//   data            none does: `<|im_end|>` becomes the characters it is made of, also where parts meet
//
// Special are control tokens and the markup among user-defined ones (`<think>`, `<tool_call>`, `[INST]`). Other
// user-defined tokens (runs of spaces, accented letters, HTML elements) are text and are found in all of it.
#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "prompt/gguf_check.h"
#include "prompt/tokenizer.h"

namespace kvern::prompt {

/// Takes 50-400 ms. kInvalidRequest for a vocabulary that cannot be used. A file should pass this before llama.cpp
/// opens it: what makes llama.cpp end the process is an error here.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const GgufInfo& model);
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::filesystem::path& model);

}  // namespace kvern::prompt
