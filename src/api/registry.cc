#include "api/registry.h"

#include <fmt/format.h>

#include <array>

namespace kvern::api {
namespace {

constexpr std::array kEndpoints{
    Endpoint{"POST", "/v1/chat/completions", Service::kChat, Guard::kTenant, true},
    Endpoint{"POST", "/v1/completions", Service::kCompletions, Guard::kTenant, true},
    Endpoint{"POST", "/v1/responses", Service::kResponses, Guard::kTenant, true},
    Endpoint{"POST", "/v1/responses/compact", Service::kCompact, Guard::kTenant, true},
    Endpoint{"GET", "/v1/responses/{id}", Service::kResponse, Guard::kTenant, false},
    Endpoint{"DELETE", "/v1/responses/{id}", Service::kResponse, Guard::kTenant, false},
    Endpoint{"GET", "/v1/responses/{id}/input_items", Service::kInputItems, Guard::kTenant, false},
    Endpoint{"POST", "/v1/responses/{id}/cancel", Service::kCancel, Guard::kTenant, true},
    Endpoint{"POST", "/v1/messages", Service::kMessages, Guard::kTenant, true},
    Endpoint{"POST", "/v1/messages/count_tokens", Service::kCountTokens, Guard::kTenant, true},
    Endpoint{"GET", "/v1/models", Service::kModels, Guard::kTenant, false},
    Endpoint{"GET", "/v1/models/*", Service::kModel, Guard::kTenant, false},
    Endpoint{"POST", "/tokenize", Service::kTokenize, Guard::kTenant, true},
    Endpoint{"POST", "/detokenize", Service::kDetokenize, Guard::kTenant, true},
    Endpoint{"GET", "/health", Service::kHealth, Guard::kTenant, false},
    Endpoint{"GET", "/live", Service::kLive, Guard::kOpen, false},
    Endpoint{"GET", "/ready", Service::kReady, Guard::kOpen, false},
    Endpoint{"GET", "/metrics", Service::kMetrics, Guard::kAdmin, false},
    Endpoint{"GET", "/openapi.json", Service::kOpenApi, Guard::kTenant, false},
    Endpoint{"GET", "/", Service::kRoot, Guard::kTenant, false},
};

constexpr std::string_view kId = "{id}";

/// What stands for the "*" or the "{id}", or nullopt.
std::optional<std::string_view> match(const Endpoint& endpoint, std::string_view path) {
  if (const std::size_t at = endpoint.path.find(kId); at != std::string_view::npos) {
    const std::string_view tail = endpoint.path.substr(at + kId.size());
    if (path.size() <= at + tail.size() || !path.starts_with(endpoint.path.substr(0, at)) || !path.ends_with(tail)) {
      return std::nullopt;
    }
    const std::string_view id = path.substr(at, path.size() - at - tail.size());
    return id.find('/') == std::string_view::npos ? std::optional(id) : std::nullopt;
  }
  if (!endpoint.path.ends_with("/*")) return path == endpoint.path ? std::optional(std::string_view{}) : std::nullopt;
  const std::string_view prefix = endpoint.path.substr(0, endpoint.path.size() - 1);
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return std::nullopt;
  return path.substr(prefix.size());
}

}  // namespace

std::span<const Endpoint> endpoints() noexcept { return kEndpoints; }

Result<Route> find_route(std::string_view method, std::string_view path) {
  bool known = false;
  for (const Endpoint& endpoint : kEndpoints) {
    const auto rest = match(endpoint, path);
    if (!rest) continue;
    known = true;
    if (method == endpoint.method || (method == "HEAD" && endpoint.method == "GET")) return Route{&endpoint, *rest};
  }
  if (known) {
    return fail(ErrorCode::kMethodNotAllowed, fmt::format("This path takes {}.", allowed_methods(path)));
  }
  std::string list;
  for (const Endpoint& endpoint : kEndpoints)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", endpoint.method, endpoint.path);
  return fail(ErrorCode::kNotFound, fmt::format("There is nothing at this path. Endpoints: {}.", list));
}

std::string allowed_methods(std::string_view path) {
  std::string out;
  for (const Endpoint& endpoint : kEndpoints) {
    if (!match(endpoint, path)) continue;
    if (!out.empty()) out += ", ";
    out += endpoint.method;
    if (endpoint.method == "GET") out += ", HEAD";
  }
  return out;
}

}  // namespace kvern::api
