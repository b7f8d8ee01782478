// requantise IN OUT: writes a GGUF file with its weights as Q8_0. scripts/setup makes the default model's second form by
// it (docs/decisions/0009).
#include <llama.h>

#include <cstdio>

namespace {

void log_errors(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: requantise IN.gguf OUT.gguf\n", stderr);
    return 2;
  }
  llama_log_set(log_errors, nullptr);
  auto params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
  params.allow_requantize = true;
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
