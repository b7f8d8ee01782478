// Settings to a served model: the file checked, vocabulary and template loaded, the engine started. Errors are for the
// person at the terminal: they name the file and say what to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/log.h"
#include "base/result.h"
#include "kv/kv_event.h"
#include "pipeline/model.h"

namespace kvern::app {

struct LoadedModel {
  std::shared_ptr<const pipeline::Model> model;
  std::string file;    // the GGUF it came from
  std::string engine;  // "embedded" or "scripted", for the banner
  bool template_has_tools = false;
  std::uint32_t cache_tokens = 0;  // 0: no prefix cache
  std::vector<std::string> warnings;
};

/// Where scripts/setup puts what it fetches: $KVERN_CACHE, else $XDG_CACHE_HOME/kvern, else ~/.cache/kvern.
std::string cache_folder();
/// The model served without --model.
std::string default_model_path();

/// `log` outlives the model. Takes tenths of a second for the default model. `kv_events`, where given, hears what the
/// embedded engine caches; the scripted one caches nothing, so that together they are an error.
Result<LoadedModel> load_model(const Settings& settings, Log& log,
                               std::shared_ptr<kv::KvEventSink> kv_events = nullptr);

}  // namespace kvern::app
