#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvern {
namespace {

TEST(BoundedQueue, RefusesAtItsBoundAndKeepsOrder) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_TRUE(queue.try_push(4));
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.try_pop(), 4);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, CloseLetsTheRestOutThenEnds) {
  BoundedQueue<int> queue(8);
  EXPECT_TRUE(queue.try_push(7));
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, NothingIsLostBetweenThreads) {
  BoundedQueue<int> queue(16);
  constexpr int kPerThread = 2000;
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&queue] {
      for (int i = 1; i <= kPerThread; ++i) {
        while (!queue.try_push(i)) std::this_thread::yield();
      }
    });
  }
  long long sum = 0;
  std::thread reader([&] {
    while (const auto item = queue.pop()) sum += *item;
  });
  for (auto& writer : writers) writer.join();
  queue.close();
  reader.join();
  EXPECT_EQ(sum, 3LL * kPerThread * (kPerThread + 1) / 2);
}

}  // namespace
}  // namespace kvern
