// ZeroMQ endpoints as vLLM and kvern's options spell them: `tcp://HOST:PORT` and `ipc://PATH`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kvern::engine::events {

/// vLLM's rule for its publisher: whoever has a wildcard or an IPv6 address binds, and so does ipc; others connect.
bool binds_by_default(std::string_view endpoint);

/// Whether it can be bound or connected to, as far as its text tells. `name` is what the operator calls it.
Result<void> check_endpoint(std::string_view endpoint, bool bind, std::string_view name);

/// False for loopback addresses and ipc: only programs of this machine get there.
bool beyond_loopback(std::string_view endpoint);

/// For the operator, from ZeroMQ's error number after a bind or connect.
Error endpoint_error(int error_number, std::string_view endpoint, bool bind, std::string_view name);

}  // namespace kvern::engine::events
