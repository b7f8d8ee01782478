#include "engine/embedded/llama_log.h"

#include <llama.h>

#include <memory>
#include <mutex>

namespace kvern::engine {
namespace {

// The library's log is global, so its target has to be. Nothing else in the engine is.
struct Target {
  std::mutex mutex;
  std::shared_ptr<const std::function<void(const std::string&)>> on_error;
};
Target& target() {
  static Target instance;
  return instance;
}
thread_local LogCapture* capture = nullptr;

void receive(ggml_log_level level, const char* text, void* /*user_data*/) {
  if (level != GGML_LOG_LEVEL_ERROR) return;
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (line.empty()) return;
  if (capture != nullptr) capture->add(line);
  std::shared_ptr<const std::function<void(const std::string&)>> on_error;
  {
    const std::lock_guard lock(target().mutex);
    on_error = target().on_error;
  }
  if (on_error && *on_error) (*on_error)(line);
}

}  // namespace

void route_llama_log(std::function<void(const std::string&)> on_error) {
  const std::lock_guard lock(target().mutex);
  target().on_error = std::make_shared<const std::function<void(const std::string&)>>(std::move(on_error));
  llama_log_set(receive, nullptr);
}

LogCapture::LogCapture() { capture = this; }
LogCapture::~LogCapture() { capture = nullptr; }

}  // namespace kvern::engine
