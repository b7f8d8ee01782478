#include "app/bench/bench_load.h"

#include <fstream>
#include <iterator>
#include <utility>

namespace kvern::app {
namespace {

boost::json::object shown(const net::Distribution& values) {
  return {
      {"count", values.count}, {"mean", values.mean}, {"p50", values.p50}, {"p99", values.p99}, {"max", values.max}};
}

}  // namespace

Result<boost::json::object> bench_load(net::LoadOptions options, const std::string& body_file) {
  std::ifstream file(body_file, std::ios::binary);
  options.body.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (!file || options.body.empty()) {
    return fail(ErrorCode::kInvalidRequest, "--body names no file with a request: " + body_file);
  }
  const auto result = net::run_load(options);
  if (!result) return result.error();
  return boost::json::object{{"answers", result->answers},
                             {"errors", result->errors},
                             {"first_error", result->first_error},
                             {"events", result->events},
                             {"reads", result->reads},
                             {"seconds", result->seconds},
                             {"latency_us", shown(result->latency)},
                             {"first_event_us", shown(result->first_event)},
                             {"gap_us", shown(result->gap)}};
}

}  // namespace kvern::app
