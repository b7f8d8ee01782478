// Metrics in Prometheus' form, by prometheus-cpp: counters, gauges and histograms are atomics, safe on any thread and
// cheap (tens of ns). Names are vLLM's where the meaning is the same (`vllm:time_to_first_token_seconds`), else
// `kvern_…`.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kvern {

/// Owns every family. Thread-safe. References it gives live as long as it does. Label values are shown as text.
/// (base/text.h, printable)
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  prometheus::Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  prometheus::Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  /// Buckets are upper bounds in the metric's unit, ascending.
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const prometheus::Histogram::BucketBoundaries& buckets, const Labels& labels = {});
  /// A whole family of gauges, by the value of one label. What is not among `numbers` any more is taken out, so that
  /// nothing is told of what has left. Give all of a family's values this way.
  void set_gauges(const std::string& name, const std::string& help, const std::string& label,
                  const std::map<std::string, double>& numbers);
  /// `refresh` runs before each scrape, to copy state kept elsewhere into gauges and counters.
  void on_scrape(std::function<void()> refresh);
  /// The text exposition format, version 0.0.4.
  std::string text() const;

 private:
  prometheus::Registry registry_;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> refresh_;  // guarded by mutex_
  std::mutex sets_mutex_;
  // By name, then label; guarded by sets_mutex_.
  std::map<std::string, std::map<std::string, prometheus::Gauge*>> sets_;
};

}  // namespace kvern
