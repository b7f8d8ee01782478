#include "net/deadline_lists.h"

#include <gtest/gtest.h>

namespace kvern::net {
namespace {

using std::chrono::seconds;

constexpr TimePoint at(int second) { return TimePoint(seconds(second)); }

TEST(DeadlineLists, ReportsWhatPassed) {
  DeadlineLists lists({seconds(50), seconds(10), seconds(20), seconds(5), seconds(2)});
  Deadline a;
  Deadline b;
  EXPECT_EQ(lists.next(), std::nullopt);
  lists.arm(a, DeadlineKind::kIdle, at(0));
  lists.arm(b, DeadlineKind::kHeader, at(1));
  EXPECT_EQ(lists.next(), at(11));
  EXPECT_EQ(lists.pop_passed(at(10)), nullptr);
  EXPECT_EQ(lists.pop_passed(at(11)), &b);
  EXPECT_FALSE(b.armed());
  EXPECT_EQ(lists.pop_passed(at(11)), nullptr);
  EXPECT_EQ(lists.next(), at(50));
}

TEST(DeadlineLists, ArmingAgainMovesAndDyingLeaves) {
  DeadlineLists lists({seconds(50), seconds(10), seconds(20), seconds(5), seconds(2)});
  Deadline a;
  lists.arm(a, DeadlineKind::kWrite, at(0));
  lists.arm(a, DeadlineKind::kWrite, at(3));
  {
    Deadline b;
    lists.arm(b, DeadlineKind::kLinger, at(0));
    EXPECT_EQ(lists.next(), at(2));
  }
  EXPECT_EQ(lists.next(), at(8));
  a.disarm();
  a.disarm();
  EXPECT_EQ(lists.next(), std::nullopt);
}

}  // namespace
}  // namespace kvern::net
