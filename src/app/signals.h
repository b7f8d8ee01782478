// Ctrl-C and SIGTERM. The first asks for an orderly end, a second stops the process at once; while nothing is served
// yet the first stops it too.
#pragma once

#include <chrono>

namespace kvern::app {

/// The handlers are process-wide, so one object may exist at a time. Writes and broken pipes never raise SIGPIPE.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From here on the first signal asks instead of ending the process.
  void arm();
  /// Waits for the first signal, or until the time is over. True when one came, now or before.
  bool wait(std::chrono::milliseconds at_most);

 private:
  int read_end_ = -1;
};

}  // namespace kvern::app
