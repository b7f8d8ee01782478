#include "net/bench/http_bench.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace kvern::net {
namespace {

TEST(HttpBench, RunsAtASmallSize) {
  HttpBenchOptions options;
  if (std::getenv("KVERN_FULL") == nullptr) {
    options.streams = 4;
    options.events = 40;
    options.requests = 100;
  }
  const auto result = bench_http(options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->us_per_event, 0);
  EXPECT_GT(result->us_per_event_eight_a_turn, 0);
  EXPECT_GT(result->us_per_request, 0);
  std::cout << result->events << " events: " << result->us_per_event << " us each, "
            << result->us_per_event_eight_a_turn << " us eight a turn; " << result->requests
            << " requests: " << result->us_per_request << " us each\n";
}

}  // namespace
}  // namespace kvern::net
