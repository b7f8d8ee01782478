// vLLM's wire for tests: bytes of answers, and an adapter to hear them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/testing/adapter_conformance.h"
#include "engine/vllm/vllm_engine.h"

namespace kvern::engine::testing {

inline constexpr std::uint32_t kVllmVocabSize = 49152;
inline constexpr TokenId kVllmEos = 2;

/// One event, framed as a chunk.
std::string vllm_data(const std::string& json);
/// An event with tokens; `finish` and `stop` are JSON.
std::string vllm_event(const std::vector<int>& tokens, std::string_view finish = "null",
                       std::string_view stop = "null");
/// The event with the usage; `details` is JSON that follows its counts.
std::string vllm_usage(std::uint32_t prompt, std::uint32_t completion, std::string_view details = "");
std::string vllm_done();

WireUnderTest vllm_wire();

}  // namespace kvern::engine::testing
