#include "pipeline/metrics.h"

namespace kvern::pipeline {
namespace {

const prometheus::Histogram::BucketBoundaries kTtft{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                                    0.75,  1.0,   2.5,  5.0,  7.5,  10,   20,   40,  80};
const prometheus::Histogram::BucketBoundaries kItl{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                                   0.2,   0.3,    0.4,   0.5,  0.75,  1.0,  2.5,   5.0};
const prometheus::Histogram::BucketBoundaries kE2e{0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,
                                                   10,   15,  20,  30,  40,  50, 60,  120, 240, 480};

Metrics::Labels with(Metrics::Labels labels, const std::string& key, const std::string& value) {
  labels[key] = value;
  return labels;
}

}  // namespace

PipelineMetrics::PipelineMetrics(Metrics& metrics, const std::string& model_name)
    : ttft_(metrics.histogram("vllm:time_to_first_token_seconds", "Time from a request's arrival to its first token",
                              kTtft, {{"model_name", model_name}})),
      itl_(metrics.histogram("vllm:inter_token_latency_seconds", "Time between two tokens of an answer", kItl,
                             {{"model_name", model_name}})),
      e2e_(metrics.histogram("vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end", kE2e,
                             {{"model_name", model_name}})),
      prompt_tokens_(metrics.counter("vllm:prompt_tokens_total", "Prompt tokens of finished requests",
                                     {{"model_name", model_name}})),
      generation_tokens_(metrics.counter("vllm:generation_tokens_total", "Tokens generated for finished requests",
                                         {{"model_name", model_name}})),
      success_stop_(metrics.counter("vllm:request_success_total", "Finished requests",
                                    with({{"model_name", model_name}}, "finished_reason", "stop"))),
      success_length_(metrics.counter("vllm:request_success_total", "Finished requests",
                                      with({{"model_name", model_name}}, "finished_reason", "length"))),
      failures_(metrics.counter("kvern_request_failures_total", "Requests that ended in a failure",
                                {{"model_name", model_name}})),
      cancelled_(metrics.counter("kvern_request_cancelled_total", "Requests whose client hung up",
                                 {{"model_name", model_name}})) {}

void PipelineMetrics::choice_ended(ir::FinishReason reason) {
  (reason == ir::FinishReason::kLength ? success_length_ : success_stop_).Increment();
}

void PipelineMetrics::ended(const ir::Usage& usage, double seconds) {
  e2e_.Observe(seconds);
  prompt_tokens_.Increment(usage.prompt_tokens);
  generation_tokens_.Increment(usage.completion_tokens);
}

}  // namespace kvern::pipeline
