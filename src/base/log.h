// Structured logs: one line per event on stderr, `time level event key=value…`. Values are quoted when they need it,
// cut at 256 bytes, and stripped of control bytes, so no client can forge a line. Prompt text and keys are never logged
// (Secret does not convert to a field).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/strong_id.h"

namespace kvern {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError, kOff };
Result<LogLevel> parse_log_level(std::string_view name);

struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, std::int64_t v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, std::uint32_t v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, int v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, double v);
  LogField(std::string_view k, RequestId v) : key(k), value(to_string(v)) {}
};

/// Thread-safe. Lines go through a bounded queue to a writer thread; when it is full the oldest lines are dropped, so a
/// blocked stderr never blocks serving.
class Log {
 public:
  explicit Log(LogLevel level);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kInfo, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kWarn, event, fields);
  }
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kError, event, fields);
  }
  /// Writes out what waits.
  void flush();

 private:
  struct Sink;
  const LogLevel level_;
  std::unique_ptr<Sink> sink_;
};

/// The text of a line after its time and level; split out so that tests see it.
std::string format_log_line(std::string_view event, std::initializer_list<LogField> fields);

}  // namespace kvern
