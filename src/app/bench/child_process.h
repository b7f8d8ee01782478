// A program started for a measurement: what it costs, seen from outside, and its end when the measurement is over.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvern::app {

class ChildProcess {
 public:
  /// Starts `command` (looked up in PATH) with its output going nowhere, its errors kept. It ends with the calling
  /// thread, even where that is killed. The error says what failed.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& command);
  /// SIGTERM, then SIGKILL.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until its stderr holds `words` and returns all of it so far; an error when it ends or `deadline` passes.
  Result<std::string> wait_for(const std::string& words, std::chrono::milliseconds deadline);
  /// CPU time so far, its children's included, in microseconds. Steps of 10 ms.
  double cpu_us() const;
  /// Resident memory in bytes, its children's included.
  std::uint64_t resident_bytes() const;

 private:
  ChildProcess(pid_t pid, int stderr_end) : pid_(pid), stderr_end_(stderr_end) {}
  const pid_t pid_;
  const int stderr_end_;
  std::string said_;
};

/// The program that runs now.
std::string own_program();

}  // namespace kvern::app
