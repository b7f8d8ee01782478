// `kvern serve`: builds the parts, runs them until a signal, takes them down in order.
#pragma once

#include "app/settings.h"

namespace kvern::app {

/// Serves until SIGTERM or Ctrl-C; returns the exit status. Messages for the person at the terminal go to stderr.
int serve(const Settings& settings);

}  // namespace kvern::app
