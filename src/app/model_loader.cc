#include "app/model_loader.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#ifdef KVERN_HAS_EMBEDDED
#include "engine/embedded/embedded_engine.h"
#endif
#include "app/vocabulary.h"
#include "base/file.h"
#include "engine/scripted/scripted_engine.h"
#include "prompt/gguf_check.h"

namespace kvern::app {
namespace {

constexpr std::string_view kDefaultModel = "SmolLM2-135M-Instruct.Q8_0.gguf";
constexpr std::string_view kScriptPrefix = "scripted:";
constexpr std::uint32_t kScriptedContext = 262'144;
constexpr std::size_t kScriptBytesMax = 256U << 20U;
constexpr std::uint32_t kTokensMin = 16;  // a block

Error at_file(const std::string& path, const Error& error, std::string_view advice) {
  return fail(error.code, fmt::format("{}: {}. {}", path, error.message, advice));
}

Result<prompt::GgufInfo> check_file(const Settings& settings, const std::string& path) {
  std::error_code fault;
  if (!std::filesystem::exists(path, fault)) {
    return fail(ErrorCode::kNotFound,
                settings.model.empty()
                    ? fmt::format("the default model is not there ({}). Run scripts/setup to fetch it, or name a GGUF "
                                  "file with --model PATH.",
                                  path)
                    : fmt::format("there is no model file {}. Check the path of --model.", path));
  }
  if (!std::filesystem::is_regular_file(path, fault)) {
    return fail(ErrorCode::kInvalidRequest, fmt::format("{} is not a file. --model takes a GGUF file.", path));
  }
  auto info = prompt::inspect(path);
  if (!info) {
    return at_file(path, info.error(), "The file is damaged, cut short or no GGUF file; fetch it again.");
  }
  return info;
}

Result<std::shared_ptr<engine::Engine>> load_scripted(const Settings& settings, engine::ModelInfo info,
                                                      const std::shared_ptr<const prompt::Tokenizer>& tokenizer) {
  const std::string path = settings.engine.substr(kScriptPrefix.size());
  auto text = read_file(path, kScriptBytesMax);
  if (!text) return fail(text.error().code, fmt::format("--engine {}: {}", settings.engine, text.error().message));
  auto lines = engine::parse_script(*text);
  if (!lines) return fail(lines.error().code, fmt::format("{}: {}", path, lines.error().message));
  for (const auto& line : *lines) {
    Tokens named = line.token_ids.value_or(Tokens{});
    for (const auto& logprob : line.logprobs) {
      for (const auto& [token, value] : logprob.top) named.push_back(token);
    }
    for (const TokenId token : named) {
      if (tokenizer->in_range(token)) continue;
      return invalid("script", fmt::format("{}: token id {} is outside the vocabulary (0 to {})", path, token,
                                           tokenizer->size() - 1));
    }
  }
  engine::ScriptedOptions options;
  options.model = std::move(info);
  options.encode = [tokenizer](std::string_view line) { return tokenizer->encode_text(line, false); };
  return std::shared_ptr<engine::Engine>(engine::make_scripted_engine(std::move(options), std::move(*lines)));
}

#ifdef KVERN_HAS_EMBEDDED
Result<std::unique_ptr<engine::EmbeddedEngine>> load_embedded(const Settings& settings, const std::string& path,
                                                              const std::string& name,
                                                              std::shared_ptr<kv::KvEventSink> kv_events, Log& log) {
  engine::EmbeddedOptions options;
  options.kv_events = std::move(kv_events);
  options.model_path = path;
  options.name = name;
  options.ctx = settings.ctx;
  options.kv_cache_tokens = settings.kv_cache_tokens;
  // More threads than cores wait for one another at every barrier: a step takes seconds.
  options.threads = std::min(settings.threads, std::max(1U, std::thread::hardware_concurrency()));
  options.gpu_layers = static_cast<std::int32_t>(settings.gpu_layers);
  options.waiting_max = settings.waiting_max;
  options.on_log = [&log](const std::string& line) { log.error("llama.cpp", {{"message", line}}); };
  return engine::EmbeddedEngine::load(options);
}
#endif

/// Globs given for the model: --alias, and the entry of `models` under its name.
Result<std::vector<std::string>> aliases_of(const Settings& settings, const std::string& name) {
  std::vector<std::string> aliases = settings.aliases;
  for (const auto& names : settings.models) {
    if (names.name != name) {
      return fail(
          ErrorCode::kInvalidRequest,
          fmt::format("`models` in the config names `{}`, but what is served is `{}`. Give the served model that "
                      "name with --name, or correct the entry.",
                      names.name, name));
    }
    aliases.insert(aliases.end(), names.aliases.begin(), names.aliases.end());
  }
  return aliases;
}

}  // namespace

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("KVERN_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/kvern";
  return variable("HOME") + "/.cache/kvern";
}

std::string default_model_path() { return fmt::format("{}/models/{}", cache_folder(), kDefaultModel); }

Result<LoadedModel> load_model(const Settings& settings, Log& log, std::shared_ptr<kv::KvEventSink> kv_events) {
  for (const auto& [key, tokens] :
       {std::pair("ctx", settings.ctx), std::pair("kv_cache_tokens", settings.kv_cache_tokens)}) {
    if (tokens != 0 && tokens < kTokensMin) {
      return fail(ErrorCode::kInvalidRequest,
                  fmt::format("{} is {}: with fewer than {} tokens no request fits", key, tokens, kTokensMin));
    }
  }
  const std::string path = settings.model.empty() ? default_model_path() : settings.model;
  auto info = check_file(settings, path);
  if (!info) return info.error();

  LoadedModel loaded;
  loaded.file = path;
  auto model = std::make_shared<pipeline::Model>();
  model->name = settings.name.empty() ? std::filesystem::path(path).stem().string() : settings.name;
  auto aliases = aliases_of(settings, model->name);
  if (!aliases) return aliases.error();
  model->aliases = std::move(*aliases);

  // First: what would make llama.cpp end the process is an error of these two.
  auto vocabulary = load_vocabulary(path, *info);
  if (!vocabulary) return vocabulary.error();
  const bool is_scripted = settings.engine.starts_with(kScriptPrefix);
#ifdef KVERN_HAS_EMBEDDED
  if (!is_scripted) {
    auto engine = load_embedded(settings, path, model->name, std::move(kv_events), log);
    if (!engine) return engine.error();
    loaded.engine = "embedded";
    loaded.warnings = (*engine)->warnings();
    if (const unsigned cores = std::thread::hardware_concurrency(); settings.threads > cores) {
      loaded.warnings.push_back(
          fmt::format("--threads {} is more than the {} cores: the engine uses {}", settings.threads, cores, cores));
    }
    loaded.cache_tokens = (*engine)->reuses_blocks() ? (*engine)->stats().cells_total : 0;
    model->engine = std::move(*engine);
    model->context_tokens = model->engine->model().context_tokens;
  }
#else
  static_cast<void>(log);
  if (!is_scripted) {
    return fail(ErrorCode::kUnavailable, "this kvern was built without the embedded engine (KVERN_ENGINE=OFF)");
  }
#endif
  if (is_scripted) {
    if (kv_events) {
      return fail(ErrorCode::kInvalidRequest, "the scripted engine caches nothing to tell of: leave --events out");
    }
    loaded.engine = "scripted";
    model->context_tokens = settings.ctx == 0 ? kScriptedContext : settings.ctx;
    const auto& tokenizer = vocabulary->tokenizer;
    auto engine = load_scripted(settings, {model->name, model->context_tokens, tokenizer->size()}, tokenizer);
    if (!engine) return engine.error();
    model->engine = std::move(*engine);
  }
  model->longer_context = "serve with a larger --ctx";
  model->tokenizer = std::move(vocabulary->tokenizer);
  model->chat_template = std::move(vocabulary->chat_template);
  const auto& traits = model->chat_template->traits();
  loaded.template_has_tools = traits.tools;
  if (!traits.warning.empty()) loaded.warnings.push_back(traits.warning);
  loaded.model = std::move(model);
  return loaded;
}

}  // namespace kvern::app
