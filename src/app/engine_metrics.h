// The engine's own counts as metrics, copied at each scrape.
#pragma once

#include <functional>
#include <string>

#include "base/metrics.h"
#include "engine/engine.h"

namespace kvern::app {

/// `stats` is asked at each scrape, for as long as `metrics` lives.
void publish_engine(Metrics& metrics, const std::string& model_name, std::function<engine::EngineStats()> stats);

}  // namespace kvern::app
