// The checks of one worker, for the doctor.
#pragma once

#include "app/doctor_report.h"
#include "app/vocabulary.h"
#include "app/workers_file.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace kvern::app {

/// Runs on the calling thread, which waits for each answer; `loop` carries them. Some seconds for a worker that hangs.
Patient examine(const WorkerSpec& spec, net::Loop& loop);

}  // namespace kvern::app
