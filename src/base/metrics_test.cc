#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using testing::HasSubstr;

TEST(Metrics, TextHoldsNamesLabelsAndRefreshedValues) {
  Metrics metrics;
  metrics.counter("vllm:request_success_total", "Requests", {{"finished_reason", "stop"}}).Increment();
  metrics.histogram("vllm:time_to_first_token_seconds", "TTFT", {0.1, 1.0}).Observe(0.5);
  auto& gauge = metrics.gauge("kvern_open_connections", "Connections");
  metrics.on_scrape([&gauge] { gauge.Set(3); });
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{finished_reason=\"stop\"} 1"));
  EXPECT_THAT(text, HasSubstr("vllm:time_to_first_token_seconds_bucket{le=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("kvern_open_connections 3"));
}

}  // namespace
}  // namespace kvern
