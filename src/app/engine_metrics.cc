#include "app/engine_metrics.h"

#include <algorithm>
#include <memory>

namespace kvern::app {

void publish_engine(Metrics& metrics, const std::string& model_name, std::function<engine::EngineStats()> read_stats) {
  using engine::EngineStats;
  const Metrics::Labels labels{{"model_name", model_name}};
  const auto gauge = [&](const char* name, const char* help, auto read) {
    auto& target = metrics.gauge(name, help, labels);
    return [&target, read](const EngineStats& stats) { target.Set(static_cast<double>(read(stats))); };
  };
  // Totals are kept by the engine; a counter catches up with them at each scrape.
  const auto counter = [&](const char* name, const char* help, auto read) {
    auto& target = metrics.counter(name, help, labels);
    return [&target, read, last = std::make_shared<double>(0)](const EngineStats& stats) {
      // A total falls when a worker leaves or begins anew: what is counted goes on from there.
      const double total = static_cast<double>(read(stats));
      target.Increment(std::max(0.0, total - *last));
      *last = total;
    };
  };
  const std::vector<std::function<void(const EngineStats&)>> copies{
      gauge("vllm:num_requests_running", "Requests in the engine's batch", [](const auto& s) { return s.running; }),
      gauge("vllm:num_requests_waiting", "Requests waiting for the engine", [](const auto& s) { return s.waiting; }),
      gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1",
            [](const auto& s) { return s.cells_total == 0 ? 0.0 : 1.0 * s.cells_used / s.cells_total; }),
      gauge("kvern_engine_cells_used", "KV-cache cells in use", [](const auto& s) { return s.cells_used; }),
      gauge("kvern_engine_cells", "KV-cache cells in all", [](const auto& s) { return s.cells_total; }),
      gauge("kvern_engine_cache_blocks", "Blocks in the prefix cache", [](const auto& s) { return s.cache_blocks; }),
      gauge("kvern_engine_cache_blocks_used", "Of those, under a running request",
            [](const auto& s) { return s.cache_blocks_used; }),
      gauge("kvern_engine_sequences_used", "Engine sequences in use", [](const auto& s) { return s.sequences_used; }),
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
              [](const auto& s) { return s.prompt_tokens; }),
      counter("vllm:prefix_cache_hits_total", "Of those, tokens found", [](const auto& s) { return s.cached_tokens; }),
      counter("vllm:num_preemptions_total", "Requests put back to the queue to free cells",
              [](const auto& s) { return s.preemptions; }),
      counter("kvern_engine_computed_tokens_total", "Prompt tokens run through the model",
              [](const auto& s) { return s.computed_tokens; }),
      counter("kvern_engine_steps_total", "Steps of the engine", [](const auto& s) { return s.steps; }),
      counter("kvern_engine_evicted_blocks_total", "Blocks evicted from the prefix cache",
              [](const auto& s) { return s.evicted_blocks; }),
  };
  metrics.on_scrape([read_stats = std::move(read_stats), copies] {
    const auto stats = read_stats();
    for (const auto& copy : copies) copy(stats);
  });
}

}  // namespace kvern::app
