// What the pipeline counts, under vLLM's names where the meaning is the same.
#pragma once

#include "base/metrics.h"
#include "ir/event.h"

namespace kvern::pipeline {

/// Thread-safe; lives as long as the Metrics it was made from.
class PipelineMetrics {
 public:
  PipelineMetrics(Metrics& metrics, const std::string& model_name);

  void first_token(double seconds) { ttft_.Observe(seconds); }
  void inter_token(double seconds) { itl_.Observe(seconds); }
  /// One choice came to its end; vLLM counts these as requests.
  void choice_ended(ir::FinishReason reason);
  /// The last choice did.
  void ended(const ir::Usage& usage, double seconds);
  void failed() { failures_.Increment(); }
  void cancelled() { cancelled_.Increment(); }

 private:
  prometheus::Histogram& ttft_;
  prometheus::Histogram& itl_;
  prometheus::Histogram& e2e_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  prometheus::Counter& success_stop_;
  prometheus::Counter& success_length_;
  prometheus::Counter& failures_;
  prometheus::Counter& cancelled_;
};

}  // namespace kvern::pipeline
