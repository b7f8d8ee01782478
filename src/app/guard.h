// Who is let in, before a body is read: the Host and Origin rules that keep web pages of a laptop's browser away from a
// loopback server (DNS rebinding, cross-site requests), and the content type. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"

namespace kvern::app {

struct GuardOptions {
  bool loopback = true;  // listening on loopback: only loopback names are valid hosts
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;
};

/// The name of a Host header without its port: `[::1]:80` gives `[::1]`.
std::string_view host_name(std::string_view host);
/// localhost, a name under .localhost, 127.0.0.0/8, or ::1.
bool is_loopback_name(std::string_view name);

/// kMisdirected, kForbidden, kUpgradeRefused or kUnsupportedMedia; nullopt lets the request in. `has_body` says whether
/// a body comes.
std::optional<Error> check_guards(const net::RequestHead& head, const GuardOptions& options);

}  // namespace kvern::app
