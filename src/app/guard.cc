#include "app/guard.h"

#include <algorithm>
#include <charconv>

namespace kvern::app {
namespace {

bool is_loopback_v4(std::string_view name) {
  if (!name.starts_with("127.")) return false;
  int parts = 0;
  while (!name.empty()) {
    unsigned octet = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), octet);
    if (fault != std::errc{} || octet > 255) return false;
    ++parts;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (name.empty()) break;
    if (name.front() != '.' || name.size() == 1) return false;
    name.remove_prefix(1);
  }
  return parts == 4;
}

bool contains_ignoring_case(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::any_of(list, [word](const auto& item) { return net::equal_ignoring_case(item, word); });
}

/// Whether a comma-separated list names `word`.
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    item = item.substr(0, item.find_last_not_of(" \t") + 1);
    if (net::equal_ignoring_case(item, word)) return true;
  }
  return false;
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::size_t end = type.find_last_not_of(" \t");
  return end != std::string_view::npos && net::equal_ignoring_case(type.substr(0, end + 1), "application/json");
}

}  // namespace

std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".localhost";
  if (net::equal_ignoring_case(name, "localhost") || name == "[::1]" || name == "::1") return true;
  if (name.size() > kSuffix.size() && net::equal_ignoring_case(name.substr(name.size() - kSuffix.size()), kSuffix)) {
    return true;
  }
  return is_loopback_v4(name);
}

std::optional<Error> check_guards(const net::RequestHead& head, const GuardOptions& options) {
  // An HTTP/1.0 request may come without a Host; browsers never send one.
  if (const auto host = net::find_header(head.headers, "host"); host && options.loopback) {
    const std::string_view name = host_name(*host);
    if (!is_loopback_name(name) && !contains_ignoring_case(options.allowed_hosts, name) &&
        !contains_ignoring_case(options.allowed_hosts, *host)) {
      return fail(ErrorCode::kMisdirected,
                  "The Host header does not name this server. Use a loopback name, or add the name to `allowed_hosts` "
                  "in the config.");
    }
  }
  if (const auto origin = net::find_header(head.headers, "origin")) {
    if (std::ranges::find(options.allowed_origins, *origin) == options.allowed_origins.end()) {
      return fail(ErrorCode::kForbidden,
                  "Requests from web pages are refused. To let one in, add its origin to `allowed_origins` in the "
                  "config.");
    }
  }
  if (const auto upgrade = net::find_header(head.headers, "upgrade"); upgrade && has_word(*upgrade, "websocket")) {
    return fail(ErrorCode::kUpgradeRefused,
                "WebSocket is not spoken here: send each request by POST, with `stream` for its events.");
  }
  if (head.has_body) {
    const auto encoding = net::find_header(head.headers, "content-encoding");
    if (encoding && !net::equal_ignoring_case(*encoding, "identity")) {
      return fail(ErrorCode::kUnsupportedMedia, "The body must come without a content-encoding.");
    }
    const auto type = net::find_header(head.headers, "content-type");
    if (!type || !is_json(*type)) {
      return fail(ErrorCode::kUnsupportedMedia,
                  "The body must be JSON, with the header content-type: application/json.");
    }
  }
  return std::nullopt;
}

}  // namespace kvern::app
