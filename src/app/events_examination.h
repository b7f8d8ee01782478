// The doctor's look at a worker's KV events: do they come, and can missed ones be had again?
#pragma once

#include <functional>
#include <vector>

#include "app/doctor_report.h"
#include "app/workers_file.h"

namespace kvern::app {

/// `provoke` makes the worker store blocks. Takes some seconds when nothing comes.
std::vector<Check> examine_events(const WorkerSpec& spec, const std::function<void()>& provoke);

}  // namespace kvern::app
