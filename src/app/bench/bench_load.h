// `kvern bench load`: one load on a server of this machine, for scripts that measure several servers with it.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "base/result.h"
#include "net/bench/load.h"

namespace kvern::app {

/// Sends the JSON in `body_file` as `options` say (their body is ignored). Blocks until done. Times in microseconds;
/// an answer that failed counts as an error in the figures.
Result<boost::json::object> bench_load(net::LoadOptions options, const std::string& body_file);

}  // namespace kvern::app
