#include "app/event_log.h"

#include <algorithm>

namespace kvern::app {

std::size_t event_length(std::string_view events) {
  const std::size_t end = events.find("\n\n");
  return end == std::string_view::npos ? events.size() : end + 2;
}

void EventLog::append(std::string_view events) {
  while (!events.empty()) {
    const std::size_t length = event_length(events);
    events_.emplace_back(events.substr(0, length));
    bytes_ += length;
    events.remove_prefix(length);
  }
  // The last one stays: it says how the answer ended.
  while (bytes_ > bytes_max_ && events_.size() > 1) {
    bytes_ -= events_.front().size();
    events_.pop_front();
    ++first_;
  }
}

std::uint64_t EventLog::read(std::uint64_t from, std::string& out, std::size_t bytes_max) const {
  std::uint64_t at = std::max(from, first_);
  for (; at < next() && out.size() < bytes_max; ++at) out += events_[at - first_];
  return at;
}

}  // namespace kvern::app
