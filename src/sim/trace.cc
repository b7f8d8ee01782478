#include "sim/trace.h"

#include <chrono>

namespace kvern::sim {

void Trace::begin(TimePoint now, std::string_view who) {
  line_.clear();
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  fmt::format_to(std::back_inserter(line_), "{:12.6f} s  {:<10} ", seconds, who);
}

void Trace::end() {
  line_.push_back('\n');
  for (const char c : line_) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  if (print_ != nullptr) std::fwrite(line_.data(), 1, line_.size(), print_);
}

}  // namespace kvern::sim
