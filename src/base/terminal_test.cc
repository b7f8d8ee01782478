#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace kvern {
namespace {

/// Runs `body` in a child with its own stderr, since these tests take it away.
#define IN_CHILD(body) EXPECT_EXIT(body, testing::ExitedWithCode(0), "")

TEST(WriteStderrDeath, WritesAll) {
  EXPECT_EXIT(
      {
        const bool all = write_stderr("hello from here\n");
        std::_Exit(all ? 0 : 1);
      },
      testing::ExitedWithCode(0), "hello from here");
}

TEST(WriteStderrDeath, AFullPipeCostsTheWords) {
  IN_CHILD({
    int ends[2];
    if (pipe(ends) != 0) std::_Exit(2);
    dup2(ends[1], STDERR_FILENO);
    const std::string much(1U << 20U, 'x');
    const bool all = write_stderr(much, std::chrono::milliseconds(1));
    std::_Exit(all ? 1 : 0);
  });
}

TEST(WriteStderrDeath, AClosedOneCostsTheWords) {
  IN_CHILD({
    close(STDERR_FILENO);
    std::_Exit(write_stderr("x") ? 1 : 0);
  });
}

TEST(KeepStandardDescriptorsDeath, NothingElseTakesTheirNumbers) {
  IN_CHILD({
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    keep_standard_descriptors();
    std::_Exit(open("/dev/null", O_RDONLY) > STDERR_FILENO && write_stderr("x") ? 0 : 1);
  });
}

}  // namespace
}  // namespace kvern
