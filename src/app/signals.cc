#include "app/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/check.h"

namespace kvern::app {
namespace {

constexpr int kExitBySignal = 130;

// A signal handler reaches nothing but process-wide state.
std::atomic<int> signals_seen{0};
std::atomic<bool> armed{false};
std::atomic<int> write_end{-1};

void on_signal(int) {
  if (!armed.load() || signals_seen.fetch_add(1) > 0) _exit(kExitBySignal);
  const char byte = 's';
  [[maybe_unused]] const auto written = write(write_end.load(), &byte, 1);
}

}  // namespace

StopSignals::StopSignals() {
  int ends[2];
  KV_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  read_end_ = ends[0];
  write_end.store(ends[1]);
  signals_seen.store(0);
  armed.store(false);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed terminal is a wish to stop, unless who started us wanted it ignored (nohup).
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler == on_signal) std::signal(SIGHUP, SIG_DFL);
  close(read_end_);
  close(write_end.exchange(-1));
}

void StopSignals::arm() { armed.store(true); }

bool StopSignals::wait(std::chrono::milliseconds at_most) {
  if (signals_seen.load() > 0) return true;
  pollfd ready{read_end_, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(at_most.count())) > 0) {
    char bytes[16];
    [[maybe_unused]] const auto taken = read(read_end_, bytes, sizeof bytes);  // non-blocking
  }
  return signals_seen.load() > 0;
}

}  // namespace kvern::app
