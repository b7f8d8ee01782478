#include "engine/vllm/testing/vllm_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kvern::engine::testing {
namespace {

VllmOptions options_for(std::uint16_t port, const QuickDeadlines& deadlines) {
  VllmOptions options;
  options.name = "w";
  options.address.url = {"127.0.0.1", port, ""};
  options.model = "smol";
  options.info = {"served", 1024, kVllmVocabSize};
  options.facts = {"smol", 1024, "0.32.0"};
  options.is_end = [](TokenId token) { return token == kVllmEos; };
  options.deadlines.first_token = deadlines.first_token;
  options.deadlines.between_tokens = deadlines.between_tokens;
  options.deadlines.probe_interval = deadlines.probe_interval;
  options.deadlines.silent_max = deadlines.silent_max;
  options.deadlines.probe = std::min(deadlines.probe, deadlines.silent_max);
  return options;
}

}  // namespace

std::string vllm_data(const std::string& json) { return chunk("data: " + json + "\n\n"); }

std::string vllm_event(const std::vector<int>& tokens, std::string_view finish, std::string_view stop) {
  return vllm_data(fmt::format(R"({{"id":"cmpl-1","object":"text_completion","created":1,"model":"smol","choices":[{{)"
                               R"("index":0,"text":"x","logprobs":null,"finish_reason":{},"stop_reason":{},)"
                               R"("prompt_token_ids":null,"token_ids":[{}]}}]}})",
                               finish, stop, fmt::join(tokens, ",")));
}

std::string vllm_usage(std::uint32_t prompt, std::uint32_t completion, std::string_view details) {
  return vllm_data(fmt::format(R"({{"choices":[],"usage":{{"prompt_tokens":{},"completion_tokens":{}{}}}}})", prompt,
                               completion, details));
}

std::string vllm_done() { return chunk("data: [DONE]\n\n") + std::string(kLastChunk); }

WireUnderTest vllm_wire() {
  WireUnderTest wire;
  wire.name = "vllm";
  wire.make = [](std::uint16_t port, const QuickDeadlines& deadlines, const std::vector<net::Loop*>& loops, Log& log) {
    return make_vllm_engine(options_for(port, deadlines), loops, log);
  };
  wire.head = sse_head;
  wire.tokens = [](const std::vector<int>& tokens) { return vllm_event(tokens); };
  wire.end = [](std::uint32_t prompt, std::uint32_t completion) {
    return vllm_event({}, "\"stop\"") + vllm_usage(prompt, completion) + vllm_done();
  };
  wire.vocab_size = kVllmVocabSize;
  return wire;
}

}  // namespace kvern::engine::testing
