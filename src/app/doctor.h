// `kvern doctor`: asks each worker of the workers file everything kvern relies on, and says what is missing, what that
// costs, and which flag adds it. It sends a handful of small requests to each. Without a workers file it looks at the
// model that `kvern serve` would serve.
#pragma once

#include "app/settings.h"

namespace kvern::app {

/// Prints to stdout; the exit status is 0 only when all is well.
int doctor(const Settings& settings, bool json);
/// When nothing can be examined: the reason to stderr and, with `json`, the one document to stdout. The exit status.
int doctor_cannot(const Error& error, bool json);

}  // namespace kvern::app
