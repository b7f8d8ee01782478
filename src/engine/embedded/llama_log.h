// llama.cpp has one log for the whole process. Here it goes nowhere, except errors: to the function set last, and,
// while a LogCapture lives on the thread that logs, into it.
#pragma once

#include <functional>
#include <string>

namespace kvern::engine {

/// Routes llama.cpp's log from now on. Empty: errors go nowhere as well. Thread-safe.
void route_llama_log(std::function<void(const std::string&)> on_error);

/// Collects the errors logged by this thread during its life; one at a time per thread.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  /// The last line captured, without its line break; empty when there was none.
  const std::string& last() const { return last_; }
  void add(const std::string& line) { last_ = line; }

 private:
  std::string last_;
};

}  // namespace kvern::engine
