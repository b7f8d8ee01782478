#include "api/vllm_wire/routes.h"

#include <fmt/format.h>

#include <array>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

constexpr std::array kEndpoints{
    WireEndpoint{"POST", "/v1/completions", WireService::kCompletions},
    WireEndpoint{"GET", "/v1/models", WireService::kModels},
    WireEndpoint{"POST", "/tokenize", WireService::kTokenize},
    WireEndpoint{"POST", "/detokenize", WireService::kDetokenize},
    WireEndpoint{"GET", "/health", WireService::kHealth},
    WireEndpoint{"GET", "/ready", WireService::kHealth},
    WireEndpoint{"GET", "/ping", WireService::kHealth},
    WireEndpoint{"POST", "/ping", WireService::kHealth},
    WireEndpoint{"GET", "/live", WireService::kLive},
    WireEndpoint{"GET", "/version", WireService::kVersion},
    WireEndpoint{"GET", "/load", WireService::kLoad},
    WireEndpoint{"GET", "/kv_event_sources", WireService::kEventSources},
    WireEndpoint{"GET", "/metrics", WireService::kMetrics},
};

}  // namespace

std::span<const WireEndpoint> wire_endpoints() noexcept { return kEndpoints; }

Result<WireService> find_wire_route(std::string_view method, std::string_view path) {
  std::string list;
  bool known = false;
  for (const WireEndpoint& endpoint : kEndpoints) {
    if (path == endpoint.path) {
      known = true;
      if (method == endpoint.method || (method == "HEAD" && endpoint.method == "GET")) return endpoint.service;
    }
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", endpoint.method, endpoint.path);
  }
  if (known) {
    return fail(ErrorCode::kMethodNotAllowed, fmt::format("This path takes {}.", allowed_wire_methods(path)));
  }
  return fail(
      ErrorCode::kNotFound,
      fmt::format("There is nothing at this path of a worker; `kvern serve` has the chat APIs. Endpoints: {}.", list));
}

std::string allowed_wire_methods(std::string_view path) {
  std::string out;
  for (const WireEndpoint& endpoint : kEndpoints) {
    if (endpoint.path != path) continue;
    if (!out.empty()) out += ", ";
    out += endpoint.method;
    if (endpoint.method == "GET") out += ", HEAD";
  }
  return out;
}

std::string render_wire_models(std::string_view name, std::int64_t created, std::uint32_t max_model_len) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("object", "list").key("data").begin_array().begin_object();
  writer.member("id", name).member("object", "model").member("created", created).member("owned_by", "kvern");
  writer.member("root", name).key("parent").null().member("max_model_len", max_model_len);
  writer.key("permission").begin_array().end_array().end_object().end_array().end_object();
  return out;
}

}  // namespace kvern::api
