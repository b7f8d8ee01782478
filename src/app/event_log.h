// The events of one streamed answer, numbered from 0, so that a client can take them from any number on. Bounded: when
// there is no room the oldest go, and whoever asks for those is told from where on there are any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace kvern::app {

class EventLog {
 public:
  explicit EventLog(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Complete server-sent events, one after the other; their numbers are those of their order.
  void append(std::string_view events);
  /// Appends the events from number `from` on, until `out` has `bytes_max` or more; the number to go on from is
  /// returned.
  std::uint64_t read(std::uint64_t from, std::string& out, std::size_t bytes_max = SIZE_MAX) const;
  /// The number of the oldest that is kept.
  std::uint64_t first() const { return first_; }
  std::uint64_t next() const { return first_ + events_.size(); }

 private:
  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::uint64_t first_ = 0;
  std::deque<std::string> events_;
};

/// The length of the first event of `events`, its empty line included; all of them where it does not end.
std::size_t event_length(std::string_view events);

}  // namespace kvern::app
