#include "app/settings.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "app/key_config.h"
#include "app/yaml_source.h"
#include "base/file.h"
#include "base/text.h"
#include "router/strategy.h"

namespace kvern::app {
namespace {

constexpr std::size_t kFileBytesMax = 1U << 20U;
/// Deadlines of streams are looked at ten times a second; two probes of a busy worker fit into a second.
constexpr std::chrono::milliseconds kTokenDeadlineLeast{100};
constexpr std::chrono::milliseconds kSilentDeadlineLeast{1'000};

template <typename T>
Result<T> parse_number(std::string_view text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || end != text.data() + text.size() || number < min || number > max) {
    return fail(ErrorCode::kInvalidRequest, fmt::format("needs a whole number from {} to {}", min, max));
  }
  return static_cast<T>(number);
}

template <typename T>
Setting number(std::string_view key, std::string_view help, T Settings::* member, std::uint64_t min = 0,
               std::uint64_t max = std::numeric_limits<T>::max()) {
  return {key, help, "N",
          [member, min, max](Settings& settings, std::string_view text) -> Result<void> {
            auto parsed = parse_number<T>(text, min, max);
            if (!parsed) return parsed.error();
            settings.*member = *parsed;
            return {};
          },
          [member](const Settings& settings) { return fmt::format("{}", settings.*member); }};
}

Setting text(std::string_view key, std::string_view help, std::string_view value_name, std::string Settings::* member) {
  return {key, help, value_name,
          [member](Settings& settings, std::string_view value) -> Result<void> {
            settings.*member = std::string(value);
            return {};
          },
          [member](const Settings& settings) { return settings.*member; }};
}

Result<void> set_engine(Settings& settings, std::string_view value) {
  if (value != "embedded" && !(value.starts_with("scripted:") && value.size() > 9)) {
    return fail(ErrorCode::kInvalidRequest, "is `embedded` or `scripted:FILE`");
  }
  settings.engine = std::string(value);
  return {};
}

Result<void> set_switch(bool& target, std::string_view value) {
  if (value != "true" && value != "false") return fail(ErrorCode::kInvalidRequest, "is `true` or `false`");
  target = value == "true";
  return {};
}

Result<void> set_log_level(Settings& settings, std::string_view value) {
  auto level = parse_log_level(value);
  if (!level) return fail(ErrorCode::kInvalidRequest, "is one of debug, info, warn, error, off");
  settings.log_level = *level;
  return {};
}

const char* log_level_name(LogLevel level) {
  static constexpr const char* kNames[] = {"debug", "info", "warn", "error", "off"};
  return kNames[static_cast<std::size_t>(level)];
}

Setting duration(std::string_view key, std::string_view help, std::chrono::milliseconds Settings::* member,
                 std::chrono::milliseconds least = {}) {
  return {key, help, "DURATION",
          [member, least](Settings& settings, std::string_view value) -> Result<void> {
            auto parsed = parse_duration(value);
            if (!parsed) return parsed.error();
            if (*parsed < least) {
              return fail(ErrorCode::kInvalidRequest, fmt::format("is at least {}ms", least.count()));
            }
            settings.*member = *parsed;
            return {};
          },
          [member](const Settings& settings) { return fmt::format("{}ms", (settings.*member).count()); }};
}

Setting only(Scope scope, Setting setting) {
  setting.scope = scope;
  return setting;
}

Result<void> set_strategy(Settings& settings, std::string_view value) {
  const auto strategy = router::make_strategy(value);
  if (!strategy) return fail(ErrorCode::kInvalidRequest, fmt::format("takes a strategy: {}", strategy.error().message));
  settings.strategy = std::string(value);
  return {};
}

Result<void> set_reasoning_events(Settings& settings, std::string_view value) {
  if (value != "summary" && value != "text") return fail(ErrorCode::kInvalidRequest, "is `summary` or `text`");
  settings.reasoning_events = value == "text" ? api::ReasoningEvents::kText : api::ReasoningEvents::kSummary;
  return {};
}

std::vector<Setting> make_table() {
  std::vector<Setting> table;
  table.push_back(text("host", "Address to listen on (default 127.0.0.1); beyond loopback it needs keys or --insecure",
                       "ADDRESS", &Settings::host));
  table.push_back(number("port", "Port to listen on (default 8080); 0 picks a free one", &Settings::port));
  table.push_back(
      text("model", "GGUF file to serve (default: the one scripts/setup fetched)", "PATH", &Settings::model));
  table.push_back({"engine", "embedded (default), or scripted:FILE for answers from a script", "KIND", set_engine,
                   [](const Settings& settings) { return settings.engine; }});
  table.push_back(text("name", "Id of the model (default: the file's name without .gguf)", "ID", &Settings::name));
  table.push_back({"alias", "A further name or glob for the model, such as 'gpt-*'; may be repeated", "GLOB",
                   [](Settings& settings, std::string_view value) -> Result<void> {
                     settings.aliases.emplace_back(value);
                     return {};
                   },
                   nullptr, Scope::kServe});
  table.push_back(number("ctx", "Longest request in tokens, answer included (default: the trained length)",
                         &Settings::ctx, 0, 16U << 20U));
  table.push_back(number("kv_cache_tokens",
                         "Tokens the KV cache holds for all requests (default: 4 x ctx, at most half of free memory)",
                         &Settings::kv_cache_tokens, 0, 64U << 20U));
  table.push_back(number("gpu_layers", "Layers to keep on a GPU, where the engine was built with one",
                         &Settings::gpu_layers, 0, 10'000));
  table.push_back(number("threads", "Threads of the engine (default: all cores)", &Settings::threads, 0, 1024));
  table.push_back(number("loops", "Event loops (default: one per core)", &Settings::loops, 0, 256));
  table.push_back(number("waiting_max",
                         "Requests that may wait for the embedded engine (default 1024); one more gets 429",
                         &Settings::waiting_max, 1, 1'000'000));
  table.push_back({"insecure", "Allow a listen beyond loopback without keys", "",
                   [](Settings& settings, std::string_view value) { return set_switch(settings.insecure, value); },
                   [](const Settings& settings) { return std::string(settings.insecure ? "true" : "false"); }});
  table.push_back({"log_level", "debug, info (default), warn, error or off", "LEVEL", set_log_level,
                   [](const Settings& settings) { return std::string(log_level_name(settings.log_level)); }});
  table.push_back(duration("drain_deadline", "How long running answers may take to finish after SIGTERM (default 30s)",
                           &Settings::drain_deadline));
  table.push_back(only(Scope::kServe, text("workers", "Workers to serve from, instead of the embedded engine (watched)",
                                           "FILE", &Settings::workers)));
  table.push_back({"strategy", "How a worker is chosen: least_loaded (default) or round_robin", "NAME", set_strategy,
                   [](const Settings& settings) { return settings.strategy; }, Scope::kServe});
  table.push_back(
      only(Scope::kServe,
           text("state_dir",
                "Folder for what outlives the process (default: $XDG_STATE_HOME/kvern, else ~/.local/state/kvern)",
                "DIR", &Settings::state_dir)));
  table.push_back(
      only(Scope::kServe, text("seal_key_file",
                               "File with 64 hex digits: the key of encrypted reasoning, shared by all frontends "
                               "(default: made in the state folder)",
                               "FILE", &Settings::seal_key_file)));
  table.push_back(only(Scope::kServe, text("responses_file",
                                           "Where /v1/responses keeps answers (default: responses.db in the state "
                                           "folder); `off` keeps none",
                                           "FILE", &Settings::responses_file)));
  table.push_back(only(Scope::kServe, number("responses_mb", "Megabytes of kept answers (default 1024): the oldest go",
                                             &Settings::responses_mb, 64, 1U << 24U)));
  table.push_back(only(
      Scope::kServe, number("responses_days", "Days an answer is kept after its conversation's last turn (default 30)",
                            &Settings::responses_days, 1, 36'500)));
  table.push_back(
      only(Scope::kServe, number("background_max", "Background responses under way (default 64); one more gets 429",
                                 &Settings::background_max, 1, 100'000)));
  table.push_back({"reasoning_events", "Stream thinking on /v1/responses as a summary (default) or as text", "KIND",
                   set_reasoning_events,
                   [](const Settings& settings) {
                     return std::string(settings.reasoning_events == api::ReasoningEvents::kText ? "text" : "summary");
                   },
                   Scope::kServe});
  table.push_back(
      only(Scope::kServe, duration("worker_connect_deadline", "How long a connection to a worker may take (default 2s)",
                                   &Settings::worker_connect_deadline, kTokenDeadlineLeast)));
  table.push_back(
      only(Scope::kServe, duration("worker_first_token_deadline",
                                   "How long a worker's first token may take, its queue included (default 5m)",
                                   &Settings::worker_first_token_deadline, kTokenDeadlineLeast)));
  table.push_back(only(Scope::kServe, duration("worker_between_tokens_deadline",
                                               "How long a worker may take between two tokens (default 1m)",
                                               &Settings::worker_between_tokens_deadline, kTokenDeadlineLeast)));
  table.push_back(
      only(Scope::kServe,
           duration("worker_silent_deadline",
                    "A worker that gives no sign of life for so long is taken for dead (default 10s, at least 1s)",
                    &Settings::worker_silent_deadline, kSilentDeadlineLeast)));
  table.push_back(only(
      Scope::kWorker,
      text("events",
           "Publish KV events here, as vLLM does: tcp://*:PORT or tcp://127.0.0.1:* binds, tcp://HOST:PORT connects",
           "ENDPOINT", &Settings::events)));
  table.push_back(only(Scope::kWorker,
                       text("replay", "Answer requests for missed KV events here (tcp://*:PORT); goes with --events",
                            "ENDPOINT", &Settings::replay)));
  return table;
}

/// Where in a config file something is wrong.
class Reader : private YamlSource {
 public:
  Reader(Settings& settings, const std::string& name) : YamlSource(name), settings_(settings) {}

  Result<void> read(const YAML::Node& root) {
    if (root.IsNull()) return {};
    if (!root.IsMap()) return fault(root, "a config file is a map of keys to values");
    if (auto unique = check_unique(root); !unique) return unique;
    for (const auto& entry : root) {
      if (auto read = read_entry(entry.first, entry.second); !read) return read;
    }
    return {};
  }

 private:
  Result<void> read_entry(const YAML::Node& key, const YAML::Node& value) {
    if (!key.IsScalar()) return fault(key, "a key is a word");
    const std::string& word = key.Scalar();
    if (word == "allowed_hosts") return read_list(word, value, settings_.allowed_hosts);
    if (word == "allowed_origins") return read_list(word, value, settings_.allowed_origins);
    if (word == "alias" && value.IsSequence()) return read_list(word, value, settings_.aliases);
    if (word == "models") return read_models(value);
    if (word == "keys") return take_keys(value);
    if (word == "limits") return read_limits(value);
    if (word == "router") return read_router(value);
    std::vector<std::string> known{"allowed_hosts", "allowed_origins", "keys", "models", "limits", "router"};
    for (const auto& setting : setting_table()) {
      if (setting.key == word) {
        if (!value.IsScalar()) return fault(value, fmt::format("`{}` has one value", word));
        if (auto set = setting.set(settings_, value.Scalar()); !set) {
          return fault(value, fmt::format("`{}` {}", word, set.error().message));
        }
        return {};
      }
      known.emplace_back(setting.key);
    }
    return unknown(key, known, "");
  }

  Result<void> read_list(const std::string& word, const YAML::Node& value, std::vector<std::string>& into) {
    if (!value.IsSequence()) return fault(value, fmt::format("`{}` is a list", word));
    for (const auto& item : value) {
      if (!item.IsScalar()) return fault(item, fmt::format("`{}` is a list of words", word));
      into.push_back(item.Scalar());
    }
    return {};
  }

  Result<void> read_models(const YAML::Node& value) {
    if (!value.IsSequence()) return fault(value, "`models` is a list of {name, aliases}");
    for (const auto& item : value) {
      if (!item.IsMap()) return fault(item, "`models` is a list of {name, aliases}");
      ModelNames names;
      for (const auto& entry : item) {
        const std::string& word = entry.first.Scalar();
        if (word == "name" && entry.second.IsScalar()) {
          names.name = entry.second.Scalar();
        } else if (word == "aliases") {
          if (auto read = read_list("aliases", entry.second, names.aliases); !read) return read;
        } else {
          return unknown(entry.first, {"name", "aliases"}, " in `models`");
        }
      }
      if (names.name.empty()) return fault(item, "an entry of `models` needs a name");
      settings_.models.push_back(std::move(names));
    }
    return {};
  }

  Result<void> take_keys(const YAML::Node& value) {
    auto keys = read_keys(value, *this);
    if (!keys) return keys.error();
    settings_.keys = *std::move(keys);
    return {};
  }

  Result<void> read_limits(const YAML::Node& value) {
    if (!value.IsMap()) return fault(value, "`limits` is a map of limits to numbers");
    if (auto unique = check_unique(value); !unique) return unique;
    for (const auto& entry : value) {
      const std::string& word = entry.first.Scalar();
      const auto parsed = entry.second.IsScalar()
                              ? parse_number<std::uint64_t>(entry.second.Scalar(), 1, 1ULL << 40U)
                              : Result<std::uint64_t>(fail(ErrorCode::kInvalidRequest, "needs a whole number"));
      if (!parsed) return fault(entry.second, fmt::format("`{}` {}", word, parsed.error().message));
      if (auto set = settings_.limits.set(word, *parsed); !set) return fault(entry.first, set.error().message);
    }
    return {};
  }

  Result<void> read_router(const YAML::Node& value) {
    if (!value.IsMap()) return fault(value, "`router` is a map, such as {strategy: least_loaded}");
    if (auto unique = check_unique(value); !unique) return unique;
    for (const auto& entry : value) {
      if (!entry.first.IsScalar() || entry.first.Scalar() != "strategy") {
        return unknown(entry.first, {"strategy"}, " in `router`");
      }
      auto set = set_strategy(settings_, entry.second.IsScalar() ? entry.second.Scalar() : std::string());
      if (!set) return fault(entry.second, set.error().message);
    }
    return {};
  }

  Settings& settings_;
};

}  // namespace

std::string Setting::flag() const {
  std::string name = "--" + std::string(key);
  for (char& c : name) c = c == '_' ? '-' : c;
  return name;
}

std::string Setting::variable() const {
  std::string name = "KVERN_";
  for (const char c : key) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::span<const Setting> setting_table() {
  static const std::vector<Setting> kTable = make_table();
  return kTable;
}

Result<void> apply_yaml(Settings& settings, const std::string& text, const std::string& name) {
  const auto document = load_yaml(text, YamlSource(name));
  if (!document) return document.error();
  return Reader(settings, name).read(*document);
}

Result<void> apply_file(Settings& settings, const std::string& path) {
  const auto content = read_file(path, kFileBytesMax);
  if (!content) return fail(content.error().code, "config file: " + content.error().message);
  return apply_yaml(settings, *content, path);
}

Result<void> apply_variables(Settings& settings, const std::function<const char*(const char*)>& lookup) {
  for (const auto& setting : setting_table()) {
    const std::string variable = setting.variable();
    const char* value = lookup(variable.c_str());
    if (value == nullptr) continue;
    if (auto set = setting.set(settings, value); !set) {
      return fail(ErrorCode::kInvalidRequest, fmt::format("{} {}", variable, set.error().message));
    }
  }
  return {};
}

std::vector<std::string> unknown_variables(const char* const* environment) {
  // Read by scripts, tests, or later commands.
  std::vector<std::string> known{"KVERN_CACHE", "KVERN_BINARY", "KVERN_FULL", "KVERN_GOLDEN"};
  for (const auto& setting : setting_table()) known.push_back(setting.variable());
  std::vector<std::string> warnings;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with("KVERN_") || std::ranges::find(known, name) != known.end()) continue;
    const auto guess = nearest(name, known);
    warnings.push_back(fmt::format("the variable {} means nothing to kvern{}", name,
                                   guess ? fmt::format("; did you mean {}?", *guess) : std::string()));
  }
  return warnings;
}

std::string print_settings(const Settings& settings) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const auto& setting : setting_table()) {
    if (!setting.get) continue;
    out << YAML::Key << std::string(setting.key) << YAML::Value << setting.get(settings);
  }
  const auto list = [&out](const char* key, const std::vector<std::string>& items) {
    out << YAML::Key << key << YAML::Value << YAML::Flow << items;
  };
  list("alias", settings.aliases);
  list("allowed_hosts", settings.allowed_hosts);
  list("allowed_origins", settings.allowed_origins);
  out << YAML::Key << "models" << YAML::Value << YAML::BeginSeq;
  for (const auto& model : settings.models) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << model.name << YAML::Key << "aliases" << YAML::Value
        << model.aliases << YAML::EndMap;
  }
  out << YAML::EndSeq;
  print_keys(settings.keys, out);
  out << YAML::Key << "limits" << YAML::Value << YAML::BeginMap;
  for (const auto& row : api::limit_table()) {
    out << YAML::Key << std::string(row.key) << YAML::Value << settings.limits[row.limit];
  }
  out << YAML::EndMap << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  std::uint64_t scale = 0;
  if (unit.empty() || unit == "s") scale = 1000;
  if (unit == "ms") scale = 1;
  if (unit == "m") scale = 60'000;
  if (unit == "h") scale = 3'600'000;
  if (fault != std::errc{} || scale == 0 || count > 1'000'000'000ULL / scale) {
    return fail(ErrorCode::kInvalidRequest, "is a duration such as 30s, 500ms or 2m");
  }
  return std::chrono::milliseconds(count * scale);
}

}  // namespace kvern::app
