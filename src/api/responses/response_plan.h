// What the decoder of a Responses body hands to its encoders.
#pragma once

#include <chrono>
#include <string>

#include "api/responses/tool_names.h"
#include "base/clock.h"
#include "base/seal.h"
#include "base/strong_id.h"

namespace kvern::api {

/// Thinking is streamed as a summary, which both camps of the specification know, or as raw reasoning text, which only
/// OpenAI's events are for. The finished item holds it raw either way.
enum class ReasoningEvents : std::uint8_t { kSummary, kText };

struct ResponsePlan {
  RequestId id;
  std::chrono::seconds created{};
  std::string model;
  /// Members of the response object that repeat the request, as JSON with a comma behind each.
  std::string echo;
  ToolNames tools;
  ReasoningEvents reasoning_events = ReasoningEvents::kSummary;
  /// For `encrypted_content`; outlives the encoder. The purpose holds whose it is.
  const Seal* seal = nullptr;
  std::string seal_purpose;
  const Clock* clock = nullptr;
  /// It goes on without its client: it is queued until the engine has it.
  bool background = false;
};

}  // namespace kvern::api
