// What `kvern serve` says once it listens: the address, the model, and the lines to paste for each client.
#pragma once

#include <string>
#include <vector>

#include "app/model_loader.h"
#include "app/worker_api.h"
#include "app/workers.h"

namespace kvern::app {

/// "http://HOST:PORT", with brackets around an IPv6 address.
std::string base_url(const std::string& host, std::uint16_t port);
/// Where others reach what listens on `host`: itself, or this machine's name where it is all addresses.
std::string reachable_host(const std::string& host);
/// `asks_for_keys`: clients need one of the config.
std::string banner(const LoadedModel& model, const std::string& url, bool asks_for_keys);
/// The same where workers answer: each with its model, or what is wrong with it.
std::string workers_banner(const std::vector<Workers::Line>& workers, const std::string& url, bool asks_for_keys);
/// For `kvern worker`: the model, and the line for a workers file. Where events are bound to all addresses, they are
/// named with the host of `url`.
std::string worker_banner(const LoadedModel& model, const EventSource& events, const std::string& url);

}  // namespace kvern::app
