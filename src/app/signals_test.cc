#include "app/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace kvern::app {
namespace {

TEST(StopSignals, TheFirstAsks) {
  StopSignals signals;
  signals.arm();
  EXPECT_FALSE(signals.wait(std::chrono::milliseconds(0)));
  std::raise(SIGTERM);
  EXPECT_TRUE(signals.wait(std::chrono::milliseconds(0)));
  EXPECT_TRUE(signals.wait(std::chrono::milliseconds(0)));
}

TEST(StopSignalsDeath, TheSecondStopsAtOnce) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.arm();
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::ExitedWithCode(130), "");
}

TEST(StopSignalsDeath, BeforeServingTheFirstStopsAtOnce) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace kvern::app
