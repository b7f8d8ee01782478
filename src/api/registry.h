// Every route of kvern serve, as one array: what answers it, who is to call it, whether it takes a body. The app routes
// by it, and a test walks it to prove that only the probes are open.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvern::api {

enum class Service : std::uint8_t {
  kChat,
  kCompletions,
  kResponses,
  kCompact,
  kResponse,
  kInputItems,
  kCancel,
  kMessages,
  kCountTokens,
  kModels,
  kModel,
  kTokenize,
  kDetokenize,
  kLive,
  kReady,
  kHealth,
  kMetrics,
  kOpenApi,
  kRoot,
};

/// Who is to call: anyone, whoever has a key, an administrator. Where no keys are set, everybody is all three.
enum class Guard : std::uint8_t { kOpen, kTenant, kAdmin };

struct Endpoint {
  std::string_view method;
  /// Exact; "{id}" stands for one segment, and an "/*" at the end for what follows, slashes included.
  std::string_view path;
  Service service;
  Guard guard;
  bool has_body;
};

std::span<const Endpoint> endpoints() noexcept;

/// An endpoint that matched, and the text its "*" or "{id}" stood for.
struct Route {
  const Endpoint* endpoint;
  std::string_view rest;
};

/// Finds the endpoint of a request; HEAD is served where GET is. An unknown path is kNotFound listing the endpoints; a
/// wrong method is kMethodNotAllowed, with the methods for `allow` from allowed_methods().
Result<Route> find_route(std::string_view method, std::string_view path);
/// For the Allow header: "GET, HEAD". Empty where the path is unknown.
std::string allowed_methods(std::string_view path);

}  // namespace kvern::api
