#include "net/loop.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace kvern::net {
namespace {

TEST(Loop, RunsPostedWorkInOrder) {
  const SystemClock clock;
  const auto loop = Loop::create(clock);
  std::string seen;
  for (const char c : std::string("abc")) loop->post([&seen, c] { seen.push_back(c); });
  EXPECT_TRUE(loop->run_and_wait([&] { seen.push_back('.'); }));
  EXPECT_EQ(seen, "abc.");
}

TEST(Loop, AfterTurnRunsOnceAfterWhatWasReady) {
  const SystemClock clock;
  const auto loop = Loop::create(clock);
  std::string seen;
  std::promise<void> done;
  loop->run_and_wait([&] {  // all of this is ready in one turn
    loop->post([&] {
      seen += "1";
      loop->after_turn([&] { seen += "|"; });
    });
    loop->post([&] {
      seen += "2";
      loop->after_turn([&] {
        seen += "!";
        loop->after_turn([&] { seen += "?"; });
      });
    });
    loop->post([&] { seen += "3"; });
    loop->post([&] { loop->after_turn([&] { loop->after_turn([&] { done.set_value(); }); }); });
  });
  done.get_future().wait();
  EXPECT_EQ(seen, "123|!?");
}

TEST(Loop, RunsDelayedWork) {
  const SystemClock clock;
  const auto loop = Loop::create(clock);
  std::promise<TimePoint> rang;
  const TimePoint start = clock.now();
  loop->post_after(std::chrono::milliseconds(20), [&] { rang.set_value(clock.now()); });
  EXPECT_GE(rang.get_future().get() - start, std::chrono::milliseconds(20));
}

TEST(Loop, DropsWhatIsPostedAfterItStopped) {
  const SystemClock clock;
  const auto loop = Loop::create(clock);
  auto token = std::make_shared<int>(0);
  loop->stop();
  loop->post([token] { ++*token; });
  loop->post_after(std::chrono::milliseconds(0), [token] { ++*token; });
  loop->stop();
  EXPECT_EQ(*token, 0);
  EXPECT_FALSE(loop->run_and_wait([&] { *token = 7; })) << "runs here instead";
  EXPECT_EQ(*token, 7);
}

}  // namespace
}  // namespace kvern::net
