#include "app/bench/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace kvern::app {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{60};

TEST(ChildProcess, IsHeardMeasuredAndEnded) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::start({"sh", "-c", "echo $$ ready >&2; exec cat /dev/zero >/dev/null"});
    ASSERT_TRUE(child.ok());
    const auto said = (*child)->wait_for("ready\n", kPatience);
    ASSERT_TRUE(said.ok()) << said.error().message;
    pid = std::stoi(*said);
    while ((*child)->cpu_us() == 0) {
    }
    EXPECT_GT((*child)->resident_bytes(), 0U);
  }
  EXPECT_NE(kill(pid, 0), 0) << "it ends with its object";
}

/// A process that is gone may stay as a zombie, where nobody waits for it.
bool is_over(pid_t pid) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), line);
  return line.empty() || line.find(") Z ") != std::string::npos;
}

TEST(ChildProcess, EndsWithAParentThatIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::start({"sh", "-c", "echo $$ ready >&2; exec cat /dev/zero >/dev/null"});
    const auto said = child.ok() ? (*child)->wait_for("ready\n", kPatience) : child.error();
    const pid_t pid = said.ok() ? std::stoi(*said) : 0;
    static_cast<void>(!write(ends[1], &pid, sizeof pid));
    kill(getpid(), SIGKILL);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ASSERT_GT(pid, 0);
  waitpid(parent, nullptr, 0);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!is_over(pid) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(is_over(pid));
  close(ends[0]);
  close(ends[1]);
}

TEST(ChildProcess, OneThatEndsIsAnErrorWithItsWords) {
  auto child = ChildProcess::start({"sh", "-c", "echo no port is free >&2"});
  ASSERT_TRUE(child.ok());
  const auto said = (*child)->wait_for("listening", kPatience);
  ASSERT_FALSE(said.ok());
  EXPECT_THAT(said.error().message, HasSubstr("no port is free"));
}

TEST(ChildProcess, AProgramThatIsNotThereIsNamed) {
  const auto child = ChildProcess::start({"kvern-no-such-program"});
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().message, HasSubstr("kvern-no-such-program"));
}

}  // namespace
}  // namespace kvern::app
