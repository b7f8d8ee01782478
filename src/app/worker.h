// `kvern worker`: one model on vLLM's wire, raw tokens in and out, for `kvern serve --workers` and other routers.
#pragma once

#include "app/settings.h"

namespace kvern::app {

/// Serves until SIGTERM or Ctrl-C; returns the exit status.
int worker(const Settings& settings);

}  // namespace kvern::app
