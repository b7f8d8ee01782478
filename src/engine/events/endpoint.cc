#include "engine/events/endpoint.h"

#include <fmt/format.h>
#include <zmq.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace kvern::engine::events {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";

struct Address {
  std::string_view host;
  std::string_view port;
};

std::optional<Address> tcp_address(std::string_view endpoint) {
  if (!endpoint.starts_with(kTcp)) return std::nullopt;
  endpoint.remove_prefix(kTcp.size());
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  return Address{endpoint.substr(0, colon), endpoint.substr(colon + 1)};
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port > 0 && port <= 65535;
}

Error wrong(std::string_view endpoint, std::string_view name, std::string_view why) {
  return invalid(std::string(name), fmt::format("{} '{}': {}", name, endpoint, why));
}

}  // namespace

bool binds_by_default(std::string_view endpoint) {
  return endpoint.find('*') != std::string_view::npos || endpoint.find("::") != std::string_view::npos ||
         endpoint.starts_with(kIpc);
}

Result<void> check_endpoint(std::string_view endpoint, bool bind, std::string_view name) {
  const auto is_control = [](char byte) { return static_cast<unsigned char>(byte) <= ' '; };
  if (std::ranges::any_of(endpoint, is_control)) return wrong(endpoint, name, "it has blanks in it");
  if (endpoint.starts_with(kIpc)) {
    if (endpoint.size() == kIpc.size()) return wrong(endpoint, name, "a path must follow ipc://");
    return {};
  }
  const auto address = tcp_address(endpoint);
  if (!address) return wrong(endpoint, name, "write it as tcp://HOST:PORT, for example tcp://127.0.0.1:5557");
  if (address->host.find(':') != std::string_view::npos && !address->host.starts_with('[')) {
    return wrong(endpoint, name, "an IPv6 address stands in brackets, as in tcp://[::1]:5557");
  }
  if (bind ? is_port(address->port) || address->port == "*" : is_port(address->port)) {
    if (bind || address->host != "*") return {};
    return wrong(endpoint, name, "to connect it needs a host in place of *");
  }
  return wrong(endpoint, name,
               bind ? "the port must be 1 to 65535, or * for a free one" : "the port must be 1 to 65535");
}

bool beyond_loopback(std::string_view endpoint) {
  const auto address = tcp_address(endpoint);
  if (!address) return false;
  return !(address->host.starts_with("127.") || address->host == "localhost" || address->host == "[::1]");
}

Error endpoint_error(int error_number, std::string_view endpoint, bool bind, std::string_view name) {
  switch (error_number) {
    case EADDRINUSE:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{} {} is taken by another program: stop that, or choose another port", name, endpoint));
    case EADDRNOTAVAIL:
    case ENODEV:
      return wrong(endpoint, name,
                   "this machine has no such address to listen on (names do not work here, only "
                   "addresses; * is every interface)");
    case EACCES:
    case EPERM:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{} {} is not allowed: ports below 1024 and folders need rights", name, endpoint));
    case EMFILE:
    case ENFILE: return fail(ErrorCode::kUnavailable, fmt::format("{} {}: no descriptor is free", name, endpoint));
    default:
      return wrong(endpoint, name,
                   fmt::format("cannot be {} ({})", bind ? "listened on" : "connected to", zmq_strerror(error_number)));
  }
}

}  // namespace kvern::engine::events
