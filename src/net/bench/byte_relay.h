// The floor that a proxy is measured against: bytes from one socket to another, unread. Each connection to `port` gets
// one to `origin`; per readable socket one receive and one send. Behind `kvern bench relay`, beside `kvern bench http`.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace kvern::net {

/// Relays on 127.0.0.1, from a free port that `listening` is told, until the process ends. Returns only with an error.
Error run_byte_relay(std::uint16_t origin, const std::function<void(std::uint16_t port)>& listening);

}  // namespace kvern::net
