#include "app/vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "prompt/gguf_tokenizer.h"
#include "prompt/jinja_template.h"

namespace kvern::app {
namespace {

Error at_file(const std::string& path, const Error& error, std::string_view advice) {
  return fail(error.code, fmt::format("{}: {}. {}", path, error.message, advice));
}

}  // namespace

Result<Vocabulary> load_vocabulary(const std::string& path, std::string_view flag) {
  std::error_code fault;
  if (!std::filesystem::exists(path, fault)) {
    return fail(ErrorCode::kNotFound, fmt::format("there is no file {}. Check the path of {}.", path, flag));
  }
  if (!std::filesystem::is_regular_file(path, fault)) {
    return fail(ErrorCode::kInvalidRequest, fmt::format("{} is not a file. {} takes a GGUF file.", path, flag));
  }
  auto info = prompt::inspect(path);
  if (!info) return at_file(path, info.error(), "The file is damaged, cut short or no GGUF file; fetch it again.");
  return load_vocabulary(path, *info);
}

Result<Vocabulary> load_vocabulary(const std::string& path, const prompt::GgufInfo& info) {
  auto tokenizer = prompt::load_tokenizer(info);
  if (!tokenizer) return at_file(path, tokenizer.error(), "Its vocabulary cannot be used.");
  auto chat_template = prompt::load_template(info);
  if (!chat_template) return at_file(path, chat_template.error(), "Its chat template cannot be used.");
  return Vocabulary{path, *std::move(tokenizer), *std::move(chat_template)};
}

}  // namespace kvern::app
