// kvern's command line. Each command has --help; the exit status is 0 only on success, 2 for wrong usage.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/bench/bench.h"
#include "app/doctor.h"
#include "app/serve.h"
#include "app/settings.h"
#include "app/version.h"
#include "app/worker.h"
#include "base/terminal.h"
#include "base/text.h"

namespace {

using kvern::app::Setting;
using kvern::app::Settings;

constexpr int kExitUsage = 2;

using kvern::app::Scope;

/// The flags of `kvern serve` or `kvern worker`, as given: they are applied last, over file and variables.
struct ServeFlags {
  std::string config;
  bool print_config = false;
  std::vector<std::pair<const Setting*, std::string>> given;
};

void add_serve_flags(CLI::App& command, Scope scope, ServeFlags& flags) {
  command
      .add_option("--config", flags.config,
                  "Config file (YAML): these flags with _ for -, and allowed_hosts, allowed_origins, keys, models, "
                  "limits, router")
      ->type_name("FILE");
  command.add_flag("--print-config", flags.print_config, "Print the settings in force as a config file, and exit");
  for (const Setting& setting : kvern::app::setting_table()) {
    if (setting.scope != Scope::kAll && setting.scope != scope) continue;
    const std::string help = fmt::format("{} [{}]", setting.help, setting.variable());
    if (setting.is_switch()) {
      // `--flag=false` counts as -1.
      command.add_flag_function(
          setting.flag(),
          [&flags, &setting](std::int64_t count) { flags.given.emplace_back(&setting, count > 0 ? "true" : "false"); },
          help);
    } else {
      command
          .add_option_function<std::vector<std::string>>(
              setting.flag(),
              [&flags, &setting](const std::vector<std::string>& values) {
                for (const auto& value : values) flags.given.emplace_back(&setting, value);
              },
              help)
          ->type_name(std::string(setting.value_name))
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);
    }
  }
}

kvern::Result<Settings> settings_from(const ServeFlags& flags) {
  Settings settings;
  if (!flags.config.empty()) {
    if (auto applied = kvern::app::apply_file(settings, flags.config); !applied) return applied.error();
  }
  for (const auto& warning : kvern::app::unknown_variables(environ)) {
    kvern::write_stderr(fmt::format("kvern: {}\n", warning));
  }
  if (auto applied = kvern::app::apply_variables(settings, [](const char* name) { return std::getenv(name); });
      !applied) {
    return applied.error();
  }
  for (const auto& [setting, value] : flags.given) {
    if (auto set = setting->set(settings, value); !set) {
      return kvern::fail(kvern::ErrorCode::kInvalidRequest, fmt::format("{} {}", setting->flag(), set.error().message));
    }
  }
  return settings;
}

int run_serving(const ServeFlags& flags, int (*command)(const Settings&)) {
  const auto settings = settings_from(flags);
  if (!settings) {
    kvern::write_stderr(fmt::format("kvern: {}\n", kvern::printable(settings.error().message)));
    return kExitUsage;
  }
  if (flags.print_config) {
    fmt::print("{}", kvern::app::print_settings(*settings));
    return 0;
  }
  return command(*settings);
}

/// Says that `word` is no command, or that there is none.
int refuse_command(const std::vector<std::string>& commands, const std::string& word) {
  const auto guess = word.empty() ? std::nullopt : kvern::nearest(word, commands);
  kvern::write_stderr(fmt::format("kvern: {}. The commands are {}.{} See kvern --help.\n",
                                  word.empty() ? std::string("a command is needed")
                                               : fmt::format("there is no command `{}`", kvern::printable(word)),
                                  kvern::join(commands, ", "),
                                  guess ? fmt::format(" Did you mean {}?", *guess) : std::string()));
  return kExitUsage;
}

/// Says which word of the command line means nothing, and what may have been meant.
int refuse_extras(const CLI::App& app, const CLI::ExtrasError& error) {
  const auto commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  std::vector<std::string> flags;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const auto extras = command.remaining();
  const auto wrong = std::ranges::find_if(extras, [](const auto& word) { return word.starts_with('-'); });
  const std::string word = wrong != extras.end() ? *wrong : extras.empty() ? error.what() : extras.front();
  const auto guess = word.starts_with('-') ? kvern::nearest(word.substr(0, word.find('=')), flags) : std::nullopt;
  const std::string name = command.get_name().empty() ? "kvern" : "kvern " + command.get_name();
  kvern::write_stderr(fmt::format("kvern: `{}` means nothing to {}{} See {} --help.\n", kvern::printable(word), name,
                                  guess ? fmt::format("; did you mean {}?", *guess) : std::string("."), name));
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app("kvern serves coding agents from open models: frontend, router and KV-cache manager in one binary.");
  app.set_version_flag("--version", fmt::format("kvern {}", kvern::app::kVersion));
  app.require_subcommand(1);

  ServeFlags flags;
  auto* serve = app.add_subcommand("serve", "Serve a model over the HTTP APIs of OpenAI and Anthropic");
  add_serve_flags(*serve, Scope::kServe, flags);
  auto* worker = app.add_subcommand("worker", "Serve one model on vLLM's wire, for kvern serve --workers");
  ServeFlags worker_flags;
  add_serve_flags(*worker, Scope::kWorker, worker_flags);

  ServeFlags doctor_flags;
  bool doctor_json = false;
  auto* doctor = app.add_subcommand("doctor", "Check workers and say what is missing, what it costs, and the remedy");
  doctor->add_option("--config", doctor_flags.config, "Config file of `kvern serve`")->type_name("FILE");
  doctor
      ->add_option_function<std::string>(
          "--workers",
          [&doctor_flags](const std::string& path) {
            for (const Setting& setting : kvern::app::setting_table()) {
              if (setting.key == "workers") doctor_flags.given.emplace_back(&setting, path);
            }
          },
          "Workers file to check (default: the config's; without one, the model of this machine)")
      ->type_name("FILE");
  doctor->add_flag("--json", doctor_json, "Print one JSON document");

  kvern::app::BenchOptions bench_options;
  int load_seconds = 5;
  auto* bench = app.add_subcommand("bench", "Measure a part of kvern on this machine");
  bench
      ->add_option("part", bench_options.part,
                   "engine, http, relay (the byte relay that http measures beside), or load (one load on a server)")
      ->required()
      ->check(CLI::IsMember({"engine", "http", "relay", "load"}));
  bench->add_flag("--json", bench_options.json, "Print one JSON document");
  bench->add_option("--model", bench_options.model, "GGUF file for `engine` (default: the one scripts/setup fetched)")
      ->type_name("PATH");
  bench->add_option("--rounds", bench_options.rounds, "How often `http` measures each case (default 3)")
      ->check(CLI::Range(1, 100))
      ->type_name("N");
  bench->add_option("--origin", bench_options.origin, "Port that `relay` passes bytes on to")->type_name("PORT");
  bench->add_option("--port", bench_options.load.port, "Port that `load` sends to, on 127.0.0.1")->type_name("PORT");
  bench->add_option("--path", bench_options.load.path, "Where `load` posts (default /v1/chat/completions)");
  bench->add_option("--body", bench_options.body_file, "File with the JSON that `load` posts")->type_name("FILE");
  bench
      ->add_option("--connections", bench_options.load.connections, "Connections of `load`, one request each at a time")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N");
  bench->add_option("--requests", bench_options.load.requests_max, "Requests of `load` at most")->type_name("N");
  bench->add_option("--seconds", load_seconds, "How long `load` sends (default 5)")
      ->check(CLI::Range(1, 600))
      ->type_name("N");

  std::vector<std::string> commands;
  for (const auto* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const std::string word = argc < 2 ? "" : argv[1];
  if (!word.starts_with('-') && std::ranges::find(commands, word) == commands.end()) {
    return refuse_command(commands, word);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    return refuse_extras(app, error);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (serve->parsed()) return run_serving(flags, kvern::app::serve);
  if (doctor->parsed()) {
    const auto settings = settings_from(doctor_flags);
    if (settings) return kvern::app::doctor(*settings, doctor_json);
    kvern::app::doctor_cannot(settings.error(), doctor_json);
    return kExitUsage;
  }
  if (worker->parsed()) return run_serving(worker_flags, kvern::app::worker);
  bench_options.load.send_for = std::chrono::seconds(load_seconds);
  return kvern::app::run_bench(bench_options);
}

}  // namespace

int main(int argc, char** argv) {
  kvern::keep_standard_descriptors();
  // ggml would start a debugger on the process when an assertion of its own fails.
  setenv("GGML_NO_BACKTRACE", "1", 0);
#ifdef __GLIBC__
  // Large bodies go back to the system when they are done, instead of raising glibc's thresholds for good.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
  mallopt(M_ARENA_MAX, 4);
#endif
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // of a library, at start-up: stdout that takes nothing, no threads left
    kvern::write_stderr(fmt::format("kvern: {}\n", error.what()));
    return 1;
  }
}
