#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>

#include <mutex>

#include "base/terminal.h"
#include "base/text.h"

namespace kvern {
namespace {

constexpr std::size_t kValueBytesMax = 256;
constexpr std::size_t kQueueLines = 8192;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::info;
}

void append_value(std::string& line, std::string_view value) {
  const bool cut = value.size() > kValueBytesMax;
  if (cut) value = value.substr(0, whole_utf8(value.substr(0, kValueBytesMax)));
  const bool plain = !value.empty() && !cut && value.find_first_of(" \"=\\") == std::string_view::npos;
  if (!plain) line += '"';
  while (!value.empty()) {
    const auto [bytes, shown] = first_character(value);
    if (!shown) {
      line += '?';
    } else {
      if (!plain && (value.front() == '"' || value.front() == '\\')) line += '\\';
      line += value.substr(0, bytes);
    }
    value.remove_prefix(bytes);
  }
  if (cut) line += "…";
  if (!plain) line += '"';
}

/// Lines that stderr does not take are dropped: a reader that stopped must not keep the process from ending.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    takes_ = write_stderr({line.data(), line.size()}, std::chrono::milliseconds(takes_ ? 100 : 0));
  }
  void flush_() override {}

  bool takes_ = true;
};

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return invalid("log_level", "log_level is one of debug, info, warn, error, off");
}

LogField::LogField(std::string_view k, double v) : key(k), value(fmt::format("{:.3f}", v)) {}

std::string format_log_line(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  return line;
}

struct Log::Sink {
  std::shared_ptr<spdlog::async_logger> logger;
  std::shared_ptr<spdlog::details::thread_pool> pool;  // ends first: its thread writes what waits by the logger
};

Log::Log(LogLevel level) : level_(level), sink_(std::make_unique<Sink>()) {
  sink_->pool = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
  sink_->logger = std::make_shared<spdlog::async_logger>("kvern", std::make_shared<StderrSink>(), sink_->pool,
                                                         spdlog::async_overflow_policy::overrun_oldest);
  sink_->logger->set_level(to_spdlog(level));
  sink_->logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < level_) return;
  sink_->logger->log(to_spdlog(level), "{}", format_log_line(event, fields));
}

void Log::flush() { sink_->logger->flush(); }

}  // namespace kvern
