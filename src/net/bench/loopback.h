// Small things a benchmark needs of this machine's loopback. Blocking.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "net/socket.h"

namespace kvern::net {

/// A blocking connection to 127.0.0.1; not valid when nothing answers.
UniqueFd connect_loopback(std::uint16_t port);

/// A port that was free a moment ago, for programs that cannot choose one themselves; 0 when there is none.
std::uint16_t free_port();

/// The body of a GET.
Result<std::string> get_loopback(std::uint16_t port, const std::string& path);

}  // namespace kvern::net
