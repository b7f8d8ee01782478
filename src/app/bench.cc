#include "app/bench.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "app/model_loader.h"
#include "base/terminal.h"
#ifdef KVERN_HAS_EMBEDDED
#include "engine/embedded/engine_bench.h"
#endif
#include "net/http_bench.h"

namespace kvern::app {
namespace {

using boost::json::object;

Result<object> bench_http() {
  const auto result = net::bench_http({});
  if (!result) return result.error();
  return object{
      {"streams", result->streams},           {"events", result->events},
      {"us_per_event", result->us_per_event}, {"us_per_event_eight_a_turn", result->us_per_event_eight_a_turn},
      {"requests", result->requests},         {"us_per_request", result->us_per_request}};
}

#ifdef KVERN_HAS_EMBEDDED
Result<object> bench_engine(const std::string& model) {
  engine::EngineBenchOptions options;
  options.engine.model_path = model.empty() ? default_model_path() : model;
  const auto figures = engine::run_engine_bench(options);
  if (!figures) return figures.error();
  return object{{"start_ms", figures->start_ms},
                {"first_token_ms", figures->first_token_ms},
                {"prefill_tokens_per_s", figures->prefill_tokens_per_s},
                {"decode_tokens_per_s", figures->decode_tokens_per_s},
                {"decode_tokens_per_s_8", figures->decode_tokens_per_s_8},
                {"turn1_computed_tokens", figures->turn1_computed_tokens},
                {"turn2_computed_tokens", figures->turn2_computed_tokens},
                {"turn1_ms", figures->turn1_ms},
                {"turn2_ms", figures->turn2_ms},
                {"turn2_cost_ratio", figures->turn2_cost_ratio},
                {"cell_bytes", figures->cell_bytes},
                {"cells", figures->cells}};
}
#else
Result<object> bench_engine(const std::string&) {
  return fail(ErrorCode::kUnavailable, "this kvern was built without the embedded engine (KVERN_ENGINE=OFF)");
}
#endif

}  // namespace

int run_bench(const BenchOptions& options) {
  const auto figures = options.part == "http" ? bench_http() : bench_engine(options.model);
  if (!figures) {
    write_stderr(fmt::format("kvern: {}\n", figures.error().message));
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", boost::json::serialize(*figures));
    return 0;
  }
  for (const auto& [key, value] : *figures) {
    const std::string name(key.data(), key.size());
    if (value.is_double()) {
      fmt::print("{:<28} {:>14.2f}\n", name, value.get_double());
    } else {
      fmt::print("{:<28} {:>14}\n", name, boost::json::serialize(value));
    }
  }
  return 0;
}

}  // namespace kvern::app
