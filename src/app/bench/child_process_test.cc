#include "app/bench/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

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
    EXPECT_GT((*child)->resident_bytes(), 0U);
    while ((*child)->cpu_us() == 0) {
    }
  }
  EXPECT_NE(kill(pid, 0), 0) << "it ends with its object";
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
