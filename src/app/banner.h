// What `kvern serve` says once it listens: the address, the model, and the lines to paste for each client.
#pragma once

#include <string>

#include "app/model_loader.h"

namespace kvern::app {

/// "http://HOST:PORT", with brackets around an IPv6 address.
std::string base_url(const std::string& host, std::uint16_t port);
std::string banner(const LoadedModel& model, const std::string& url);

}  // namespace kvern::app
