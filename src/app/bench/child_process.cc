#include "app/bench/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

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

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail(ErrorCode::kInternal, "no pipe can be made");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int fault = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (fault != 0) {
    close(ends[0]);
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
