// The engine's own counts as metrics, copied at each scrape.
#pragma once

#include <memory>
#include <string>

#include "base/metrics.h"
#include "engine/engine.h"

namespace kvern::app {

/// `metrics` keeps the engine alive.
void publish_engine(Metrics& metrics, const std::string& model_name, std::shared_ptr<engine::Engine> engine);

}  // namespace kvern::app
