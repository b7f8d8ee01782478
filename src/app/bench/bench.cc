#include "app/bench/bench.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "app/bench/bench_http.h"
#include "app/bench/bench_load.h"
#include "app/model_loader.h"
#include "base/terminal.h"
#ifdef KVERN_HAS_EMBEDDED
#include "engine/embedded/engine_bench.h"
#endif

namespace kvern::app {
namespace {

using boost::json::object;

#ifdef KVERN_HAS_EMBEDDED
object shown(const engine::EngineSpeeds& speeds) {
  return {{"prefill_tokens_per_s", speeds.prefill},
          {"decode_tokens_per_s", speeds.decode},
          {"streams_tokens_per_s", speeds.decode_streams},
          {"streams_ms", speeds.streams_ms}};
}

Result<object> bench_engine(const std::string& model) {
  engine::EngineBenchOptions options;
  options.engine.model_path = model.empty() ? default_model_path() : model;
  // A pool that two cores fill in half a minute.
  options.engine.ctx = 2048;
  options.engine.kv_cache_tokens = 8192;
  const auto figures = engine::run_engine_bench(options);
  if (!figures) return figures.error();
  const object sizes{{"cells", figures->cells},
                     {"context_tokens", options.engine.ctx},
                     {"prefill_tokens", options.prefill_tokens},
                     {"decode_tokens", options.decode_tokens},
                     {"single_runs", options.single_runs},
                     {"streams", options.streams},
                     {"stream_tokens", options.stream_tokens},
                     {"parked_prefix_tokens", options.parked_prefix_tokens},
                     {"parked_share", figures->parked_share},
                     {"mixed_streams", options.mixed_streams},
                     {"mixed_prompts", options.mixed_prompts},
                     {"mixed_prompt_tokens", options.mixed_prompt_tokens}};
  return object{{"sizes", sizes},
                {"start_ms", figures->start_ms},
                {"first_token_ms", figures->first_token_ms},
                {"empty", shown(figures->empty)},
                {"parked", shown(figures->parked)},
                {"mixed", object{{"stall_p50_ms", figures->stall_p50_ms},
                                 {"stall_p99_ms", figures->stall_p99_ms},
                                 {"stall_max_ms", figures->stall_max_ms},
                                 {"budget_tokens", figures->budget_tokens},
                                 {"budget_step_ms", figures->budget_step_ms},
                                 {"budget_step_max_ms", figures->budget_step_max_ms}}},
                {"turn1_computed_tokens", figures->turn1_computed_tokens},
                {"turn2_computed_tokens", figures->turn2_computed_tokens},
                {"turn1_ms", figures->turn1_ms},
                {"turn2_ms", figures->turn2_ms},
                {"turn2_cost_ratio", figures->turn2_cost_ratio},
                {"cell_bytes", figures->cell_bytes}};
}
#else
Result<object> bench_engine(const std::string&) {
  return fail(ErrorCode::kUnavailable, "this kvern was built without the embedded engine (KVERN_ENGINE=OFF)");
}
#endif

Result<object> measure(const BenchOptions& options) {
  if (options.part == "http") return bench_http(options.rounds);
  if (options.part == "load") return bench_load(options.load, options.body_file);
  return bench_engine(options.model);
}

void print_table(const object& figures, const std::string& path) {
  for (const auto& [key, value] : figures) {
    const std::string name = path + std::string(key.data(), key.size());
    if (const auto* inner = value.if_object()) {
      print_table(*inner, name + ".");
    } else if (value.is_double()) {
      fmt::print("{:<52} {:>14.2f}\n", name, value.get_double());
    } else {
      fmt::print("{:<52} {:>14}\n", name, boost::json::serialize(value));
    }
  }
}

}  // namespace

int run_bench(const BenchOptions& options) {
  if (options.part == "relay") return run_relay(options.origin);
  const auto figures = measure(options);
  if (!figures) {
    write_stderr(fmt::format("kvern: {}\n", figures.error().message));
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", boost::json::serialize(*figures));
    return 0;
  }
  print_table(*figures, "");
  return 0;
}

}  // namespace kvern::app
