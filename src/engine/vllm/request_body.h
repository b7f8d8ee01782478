// A generation as the body of vLLM's POST /v1/completions, built from the port's fields alone: nothing of a client
// passes through raw. Every sampling field is written, so that a worker's own defaults (its generation config) change
// nothing.
#pragma once

#include <string>

#include "engine/engine.h"

namespace kvern::engine {

/// Asks a worker to tell cached tokens with its first event: kvern hangs up when a stop string has come, before the
/// last one. `kvern worker` does; vLLM, which cannot, takes no notice of a header.
inline constexpr std::string_view kEarlyUsageHeader = "x-kvern-early-usage";

/// `model` is the id the worker knows. vLLM serves lower priorities first, so kvern's is negated; `with_priority` false
/// leaves it out, for a worker that refuses it. The cache namespace goes as 64 hex digits, which no client chooses.
std::string completion_body(const GenerateRequest& request, std::string_view model, bool with_priority);

/// More bytes than an answer to it in order has: what the connection is cut at.
std::size_t answer_bytes_max(const GenerateRequest& request);

}  // namespace kvern::engine
