// What `kvern serve` can be told, in three layers: config file (YAML) < KVERN_… variables < flags. One table holds each
// setting's key, default and help, so that file, variable, flag, --help and --print-config cannot drift apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/limits.h"
#include "api/responses/response_plan.h"
#include "app/keys.h"
#include "base/log.h"
#include "base/result.h"

namespace kvern::app {

struct ModelNames {
  std::string name;
  std::vector<std::string> aliases;
};

struct Settings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string model;                      // GGUF path; empty: the default model of scripts/setup
  std::string engine = "embedded";        // or scripted:FILE
  std::string workers;                    // workers file; empty: the embedded engine
  std::string strategy = "least_loaded";  // how workers are chosen
  std::string events;                     // `kvern worker`: where KV events are published; empty: nowhere
  std::string replay;                     // `kvern worker`: where they are replayed
  std::string name;                       // model id; empty: the file's name without .gguf
  std::vector<std::string> aliases;
  std::uint32_t ctx = 0;              // 0: the trained length
  std::uint32_t kv_cache_tokens = 0;  // 0: 4 x ctx, at most half of free memory
  std::uint32_t gpu_layers = 0;
  std::uint32_t threads = 0;  // 0: all cores
  std::uint32_t loops = 0;    // 0: one per core
  bool insecure = false;
  LogLevel log_level = LogLevel::kInfo;
  std::chrono::milliseconds drain_deadline{30'000};
  std::uint32_t waiting_max = 1024;
  std::chrono::milliseconds worker_connect_deadline{2'000};
  std::chrono::milliseconds worker_first_token_deadline{300'000};
  std::chrono::milliseconds worker_between_tokens_deadline{60'000};
  std::chrono::milliseconds worker_silent_deadline{10'000};
  std::string state_dir;      // what outlives the process; empty: default_state_dir()
  std::string seal_key_file;  // key for what clients keep; empty: made in state_dir
  api::ReasoningEvents reasoning_events = api::ReasoningEvents::kSummary;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;
  std::vector<ModelNames> models;
  std::vector<KeySpec> keys;  // none: whoever reaches the server may use it
  api::Limits limits;
};

/// Which commands have a setting as a flag. Files and variables may hold all of them.
enum class Scope : std::uint8_t { kAll, kServe, kWorker };

/// One scalar setting: the row of the table.
struct Setting {
  std::string_view key;   // in the file: `log_level`; flag `--log-level`; variable `KVERN_LOG_LEVEL`
  std::string_view help;  // one line
  std::string_view value_name;
  std::function<Result<void>(Settings&, std::string_view)> set;
  std::function<std::string(const Settings&)> get;
  Scope scope = Scope::kAll;

  bool is_switch() const { return value_name.empty(); }
  std::string flag() const;
  std::string variable() const;
};

std::span<const Setting> setting_table();

/// Reads a config file over `settings`. Errors name the line, the key, and the nearest known key.
Result<void> apply_file(Settings& settings, const std::string& path);
Result<void> apply_yaml(Settings& settings, const std::string& text, const std::string& name);
/// Applies KVERN_… variables; `lookup` returns nullptr for one that is not set.
Result<void> apply_variables(Settings& settings, const std::function<const char*(const char*)>& lookup);

/// A warning for each KVERN_… variable that nothing reads, with the name that was perhaps meant.
std::vector<std::string> unknown_variables(const char* const* environment);

/// The settings in force as YAML, readable by apply_file. Holds no secrets: of keys their digests or variables.
std::string print_settings(const Settings& settings);

/// `30s`, `500ms`, `2m`, `1h`; a bare number is seconds.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace kvern::app
