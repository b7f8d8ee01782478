#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(Metrics, AFamilySetAsAWholeForgetsWhatHasLeft) {
  Metrics metrics;
  const auto set = [&](const std::map<std::string, double>& values) {
    metrics.set_gauges("kvern_worker_up", "Up", "worker", values);
    return metrics.text();
  };
  EXPECT_THAT(set({{"a", 1}, {"b", 2}}), HasSubstr("kvern_worker_up{worker=\"a\"} 1"));
  const std::string text = set({{"b", 3}, {"c", 4}});
  EXPECT_THAT(text, Not(HasSubstr("worker=\"a\"")));
  EXPECT_THAT(text, HasSubstr("kvern_worker_up{worker=\"b\"} 3"));
  EXPECT_THAT(text, HasSubstr("kvern_worker_up{worker=\"c\"} 4"));
  EXPECT_THAT(set({}), Not(HasSubstr("worker=")));
  EXPECT_THAT(set({{"a", 5}}), HasSubstr("kvern_worker_up{worker=\"a\"} 5")) << "it may come back";
}

TEST(Metrics, LabelsAreTextWhateverAWorkerCallsItself) {
  Metrics metrics;
  metrics.counter("kvern_x", "X", {{"model_name", "a\x1b[31m\xff"}}).Increment();
  metrics.set_gauges("kvern_y", "Y", "worker", {{"b\x07", 1}});
  metrics.set_gauges("kvern_y", "Y", "worker", {{"b\x07", 2}});
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(model_name="a\\x1b[31m\\xff")"));
  EXPECT_THAT(text, HasSubstr(R"(kvern_y{worker="b\\x07"} 2)"));
}

}  // namespace
}  // namespace kvern
