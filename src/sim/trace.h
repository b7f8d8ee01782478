// What happened in a simulated run: a line per event, for a person to read and as one hash over all of them. Equal
// seeds of equal code give equal lines. One thread; about half a microsecond a line.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "base/clock.h"

namespace kvern::sim {

class Trace {
 public:
  /// Prints each line to `print` as well, unless it is null. It outlives the trace.
  explicit Trace(std::FILE* print) : print_(print) {}

  template <typename... Args>
  void line(TimePoint now, std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
    begin(now, who);
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
    end();
  }
  std::uint64_t hash() const { return hash_; }

 private:
  void begin(TimePoint now, std::string_view who);
  void end();

  std::FILE* print_;
  fmt::memory_buffer line_;
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;  // FNV-1a's basis
};

}  // namespace kvern::sim
