#include "base/metrics.h"

#include <prometheus/text_serializer.h>

#include "base/text.h"

namespace kvern {
namespace {

/// A label may be told by a worker; whoever reads the page in a terminal should see text.
Metrics::Labels shown(Metrics::Labels labels) {
  for (auto& [name, value] : labels) value = printable(value);
  return labels;
}

}  // namespace

prometheus::Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(shown(labels));
}

prometheus::Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(shown(labels));
}

prometheus::Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                                          const prometheus::Histogram::BucketBoundaries& buckets,
                                          const Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(shown(labels), buckets);
}

void Metrics::set_gauges(const std::string& name, const std::string& help, const std::string& label,
                         const std::map<std::string, double>& numbers) {
  std::map<std::string, double> values;
  for (const auto& [value, number] : numbers) values[printable(value)] = number;
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  const std::lock_guard lock(sets_mutex_);
  auto& known = sets_[name];
  std::erase_if(known, [&](const auto& entry) {
    if (values.contains(entry.first)) return false;
    family.Remove(entry.second);
    return true;
  });
  for (const auto& [value, number] : values) {
    auto& gauge = known[value];
    if (gauge == nullptr) gauge = &family.Add({{label, value}});
    gauge->Set(number);
  }
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
