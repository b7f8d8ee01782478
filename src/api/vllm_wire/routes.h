// Every route of `kvern worker`: those of vLLM's server that routers use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvern::api {

enum class WireService : std::uint8_t {
  kCompletions,
  kModels,
  kTokenize,
  kDetokenize,
  kHealth,
  kLive,
  kVersion,
  kLoad,
  kEventSources,
  kMetrics,
};

struct WireEndpoint {
  std::string_view method;
  std::string_view path;
  WireService service;
};

std::span<const WireEndpoint> wire_endpoints() noexcept;
/// As find_route of the registry: kNotFound lists the endpoints, kMethodNotAllowed the methods.
Result<WireService> find_wire_route(std::string_view method, std::string_view path);
/// For the Allow header; empty where the path is unknown.
std::string allowed_wire_methods(std::string_view path);

/// GET /v1/models with the one model a worker has.
std::string render_wire_models(std::string_view name, std::int64_t created, std::uint32_t max_model_len);

}  // namespace kvern::api
