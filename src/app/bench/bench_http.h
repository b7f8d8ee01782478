// `kvern bench http`: what the whole way of a request costs, from a client's bytes to the answer's, with the scripted
// engine in the same process and behind a worker, beside nginx and a byte relay in the same run; then the same on each
// API with thinking, text and a tool call in the answer. Each is a process of its own, measured by its CPU time; the
// load comes from this process, so all share the machine's cores.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"

namespace kvern::app {

/// Takes about three minutes. `rounds` measures each case so often and gives medians. Progress goes to stderr.
Result<boost::json::object> bench_http(int rounds);

/// `kvern bench relay`: the floor, a program of its own for the above. Returns the exit status.
int run_relay(std::uint16_t origin);

}  // namespace kvern::app
