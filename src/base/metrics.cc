#include "base/metrics.h"

#include <prometheus/text_serializer.h>

namespace kvern {

prometheus::Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                                          const prometheus::Histogram::BucketBoundaries& buckets,
                                          const Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels, buckets);
}

void Metrics::on_scrape(std::function<void()> refresh) {
  const std::lock_guard lock(mutex_);
  refresh_.push_back(std::move(refresh));
}

std::string Metrics::text() const {
  {
    // One scrape at a time: a refresh reads and writes what it copies.
    const std::lock_guard lock(mutex_);
    for (const auto& refresh : refresh_) refresh();
  }
  return prometheus::TextSerializer{}.Serialize(registry_.Collect());
}

}  // namespace kvern
