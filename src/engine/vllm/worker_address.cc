#include "engine/vllm/worker_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace kvern::engine {
namespace {

Error wrong(std::string_view what) {
  return invalid("url", fmt::format("is no worker's address: {} (such as http://10.0.0.5:8000)", what));
}

}  // namespace

Result<WorkerUrl> parse_worker_url(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with("https://")) {
    return wrong("https is not spoken to workers yet; use http inside a network you trust");
  }
  if (!text.starts_with(kScheme)) return wrong("it begins with http://");
  text.remove_prefix(kScheme.size());
  const bool is_clean = std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
  if (!is_clean || text.find_first_of("@?#\\\"<>") != std::string_view::npos) {
    return wrong("it holds a host, a port and perhaps a path, nothing more");
  }
  WorkerUrl url;
  const std::size_t slash = text.find('/');
  std::string_view place = text.substr(0, slash);
  if (slash != std::string_view::npos) url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  std::string_view port;
  if (place.starts_with('[')) {
    const std::size_t close = place.find(']');
    if (close == std::string_view::npos) return wrong("the bracket is not closed");
    url.host = place.substr(1, close - 1);
    port = place.substr(close + 1);
  } else {
    const std::size_t colon = place.find(':');
    url.host = place.substr(0, colon);
    if (colon != std::string_view::npos) port = place.substr(colon);
  }
  if (url.host.empty()) return wrong("the host is missing");
  if (!port.empty()) {
    std::uint16_t number = 0;
    const auto [end, fault] = std::from_chars(port.data() + 1, port.data() + port.size(), number);
    if (port.front() != ':' || fault != std::errc{} || end != port.data() + port.size() || number == 0) {
      return wrong("the port is a number from 1 to 65535");
    }
    url.port = number;
  }
  return url;
}

net::ClientRequest request_to(const WorkerAddress& worker, std::string_view method, std::string_view path,
                              std::string body) {
  net::ClientRequest request;
  request.host = worker.url.host;
  request.port = worker.url.port;
  request.method = method;
  request.target = worker.url.path + std::string(path);
  if (!body.empty()) request.headers.emplace_back("content-type", "application/json");
  if (!worker.api_key.empty()) {
    request.headers.emplace_back("authorization", "Bearer " + std::string(worker.api_key.reveal()));
  }
  request.body = std::move(body);
  return request;
}

}  // namespace kvern::engine
