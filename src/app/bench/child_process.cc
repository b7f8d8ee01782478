#include "app/bench/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace kvern::app {
namespace {

constexpr auto kEndsWithin = std::chrono::seconds(8);
constexpr auto kPoll = std::chrono::milliseconds(10);

/// The process and its children (nginx keeps workers of its own).
std::vector<pid_t> family(pid_t pid) {
  std::vector<pid_t> out{pid};
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", out[i]));
    for (pid_t child = 0; children >> child;) out.push_back(child);
  }
  return out;
}

/// The fields of /proc/PID/stat after the name, which may hold blanks: [0] is field 3 of proc(5).
std::vector<std::string> stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  std::istringstream rest(all.substr(std::min(all.rfind(')') + 2, all.size())));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

std::uint64_t number(const std::vector<std::string>& fields, std::size_t field) {
  return fields.size() > field ? std::stoull(fields[field]) : 0;
}

/// In the new process; only calls that are safe between fork and exec. It ends with `parent`, however that ends: what
/// measures leaves nothing running.
[[noreturn]] void become(char* const* arguments, int err, int fault_to, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
      dup2(err, STDERR_FILENO) >= 0) {
    execvp(arguments[0], arguments);
  }
  const int fault = errno;
  static_cast<void>(!write(fault_to, &fault, sizeof fault));
  _exit(1);
}

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command) {
  int ends[2];
  int faults[2];  // tells why exec failed; closed unwritten where it did not
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail(ErrorCode::kInternal, "no pipe can be made");
  if (pipe2(faults, O_CLOEXEC) != 0) {
    close(ends[0]);
    close(ends[1]);
    return fail(ErrorCode::kInternal, "no pipe can be made");
  }
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(arguments.data(), ends[1], faults[1], parent);
  close(ends[1]);
  close(faults[1]);
  int fault = errno;
  const bool failed = pid < 0 || read(faults[0], &fault, sizeof fault) > 0;
  close(faults[0]);
  if (failed) {
    close(ends[0]);
    if (pid > 0) waitpid(pid, nullptr, 0);
    return fail(ErrorCode::kUnavailable, fmt::format("{} cannot be started: {}", command[0], strerror(fault)));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, ends[0]));
}

ChildProcess::~ChildProcess() {
  kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + kEndsWithin;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(kPoll);
  }
  close(stderr_end_);
}

Result<std::string> ChildProcess::wait_for(const std::string& words, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (said_.find(words) == std::string::npos) {
    pollfd ready{stderr_end_, POLLIN, 0};
    poll(&ready, 1, 100);
    char buffer[4096];
    const ssize_t size = read(stderr_end_, buffer, sizeof buffer);
    if (size > 0) said_.append(buffer, static_cast<std::size_t>(size));
    if (size == 0 || std::chrono::steady_clock::now() >= until) {
      return fail(ErrorCode::kUnavailable, fmt::format("a program to be measured does not start: {}", said_));
    }
  }
  return said_;
}

double ChildProcess::cpu_us() const {
  std::uint64_t ticks = 0;
  for (const pid_t pid : family(pid_)) {
    const auto fields = stat_of(pid);
    ticks += number(fields, 11) + number(fields, 12);
  }
  return static_cast<double>(ticks) * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t ChildProcess::resident_bytes() const {
  std::uint64_t pages = 0;
  for (const pid_t pid : family(pid_)) pages += number(stat_of(pid), 21);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace kvern::app
