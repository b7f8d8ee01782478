// The store of responses that the settings ask for.
#pragma once

#include <memory>

#include "app/settings.h"
#include "app/store/sqlite_response_store.h"

namespace kvern::app {

/// nullptr: nothing is stored, since the settings say so, or since the default place cannot be used, which is logged. A
/// place that was asked for and cannot be used is an error, and so is a file that is damaged or not ours.
Result<std::unique_ptr<SqliteResponseStore>> open_response_store(const Settings& settings, const Clock& clock, Log& log,
                                                                 Metrics& metrics);

}  // namespace kvern::app
