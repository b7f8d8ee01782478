#include "sim/world.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/virtual_executor.h"
#include "sim/virtual_pool.h"

namespace kvern::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(World, TimeJumpsFromEventToEvent) {
  World world(1, nullptr);
  std::string story;
  world.after(milliseconds(20), [&] { story += 'b'; });
  world.after(milliseconds(10), [&] {
    story += 'a';
    world.after(milliseconds(15), [&] { story += 'c'; });
  });
  EXPECT_EQ(world.run(world.now() + seconds(1)), World::Outcome::kQuiet);
  EXPECT_EQ(story, "abc");
  EXPECT_EQ(world.now().time_since_epoch(), seconds(1));
}

TEST(World, WhatIsDueLaterWaits) {
  World world(1, nullptr);
  bool happened = false;
  world.after(seconds(2), [&] { happened = true; });
  EXPECT_EQ(world.run(world.now() + seconds(1)), World::Outcome::kTime);
  EXPECT_FALSE(happened);
  EXPECT_EQ(world.run(world.now() + seconds(1)), World::Outcome::kQuiet);
  EXPECT_TRUE(happened);
}

TEST(World, StoppedItDoesNothingMore) {
  World world(1, nullptr);
  int happened = 0;
  for (int i = 0; i < 5; ++i) {
    world.after(seconds(1), [&] {
      ++happened;
      world.stop();
    });
  }
  EXPECT_EQ(world.run(world.now() + seconds(2)), World::Outcome::kStopped);
  EXPECT_EQ(happened, 1);
}

TEST(World, WhatNeverEndsIsToldApart) {
  World world(1, nullptr);
  std::function<void()> again = [&] { world.after(Duration(0), again); };
  again();
  EXPECT_EQ(world.run(world.now() + seconds(1)), World::Outcome::kTooMany);
}

std::string order_of_one_instant(std::uint64_t seed) {
  World world(seed, nullptr);
  std::string order;
  for (const char c : std::string("abcd")) world.after(seconds(1), [&order, c] { order += c; });
  world.run(world.now() + seconds(2));
  return order;
}

TEST(World, TheSeedOrdersWhatHappensAtOneInstant) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    orders.insert(order_of_one_instant(seed));
    EXPECT_EQ(order_of_one_instant(seed), order_of_one_instant(seed));
  }
  EXPECT_EQ(orders.size(), 24U);
}

TEST(VirtualExecutor, PostsKeepTheirOrderAndNeverRunAtOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    World world(seed, nullptr);
    VirtualExecutor executor(world);
    std::string story;
    executor.post([&] {
      story += 'a';
      executor.post([&] { story += 'c'; });
    });
    executor.post([&] { story += 'b'; });
    EXPECT_EQ(story, "");
    world.run(world.now() + seconds(1));
    EXPECT_EQ(story, "abc");
  }
}

TEST(VirtualExecutor, TimersRunWhenTheirTimeHasPassed) {
  World world(3, nullptr);
  VirtualExecutor executor(world);
  TimePoint ran;
  executor.post_after(seconds(5), [&] { ran = executor.clock().now(); });
  world.run(world.now() + seconds(10));
  EXPECT_GE(ran.time_since_epoch(), seconds(5));
  EXPECT_LT(ran.time_since_epoch(), milliseconds(5100));
}

TEST(VirtualPool, RefusesBeyondItsBoundAndEndsWorkInAnyOrder) {
  std::set<std::string> stories;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    World world(seed, nullptr);
    VirtualPool pool(world, 2, 1);
    std::string story;
    for (const char c : std::string("abc")) EXPECT_TRUE(pool.try_run([&story, c] { story += c; }));
    EXPECT_FALSE(pool.try_run([&story] { story += 'd'; }));
    world.run(world.now() + seconds(1));
    EXPECT_TRUE(pool.try_run([&story] { story += 'e'; }));
    world.run(world.now() + seconds(1));
    EXPECT_EQ(story.size(), 4U);
    stories.insert(story);
  }
  EXPECT_TRUE(stories.contains("abce"));
  EXPECT_TRUE(stories.contains("bace"));
}

}  // namespace
}  // namespace kvern::sim
