// Any bytes as a model file: the check ends with a description or an error, and what it passes the vocabulary takes or
// refuses without ending the process.
#include <cstddef>
#include <cstdint>
#include <span>

#include "prompt/gguf_check.h"
#include "prompt/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto info = kvern::prompt::inspect_bytes(std::as_bytes(std::span(data, size)));
  if (!info.ok()) return 0;
  const auto tokenizer = kvern::prompt::load_tokenizer(*info);
  if (tokenizer.ok()) (void)(*tokenizer)->encode_text("a b <|im_end|> 42\n", true);
  return 0;
}
