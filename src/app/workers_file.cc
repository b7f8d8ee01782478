#include "app/workers_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "app/yaml_source.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/events/endpoint.h"

namespace kvern::app {
namespace {

constexpr std::size_t kFileBytesMax = 1U << 20U;
constexpr std::size_t kWorkersMax = 1024;
constexpr std::size_t kNameBytesMax = 128;

/// Every kind that CONTRACTS fixes, and which of them can be spoken to.
struct Kind {
  std::string_view name;
  bool is_built;
};
constexpr std::array kKinds{Kind{"vllm", true}, Kind{"kvern", true}, Kind{"sglang", false}, Kind{"llamacpp", false},
                            Kind{"chat", false}};
constexpr std::array<std::string_view, 2> kParsers{"hermes", "plain"};

/// One text key of an entry.
struct TextKey {
  std::string_view name;
  std::string WorkerSpec::* member;
};
constexpr std::array kTextKeys{TextKey{"name", &WorkerSpec::name},
                               TextKey{"kind", &WorkerSpec::kind},
                               TextKey{"url", &WorkerSpec::url},
                               TextKey{"model", &WorkerSpec::model},
                               TextKey{"tokenizer", &WorkerSpec::tokenizer},
                               TextKey{"parser", &WorkerSpec::parser},
                               TextKey{"events", &WorkerSpec::events},
                               TextKey{"replay", &WorkerSpec::replay},
                               TextKey{"api_key_env", &WorkerSpec::api_key_env}};

std::string built_kinds() {
  std::string out;
  for (const Kind& kind : kKinds) {
    if (kind.is_built) out += fmt::format("{}{}", out.empty() ? "" : ", ", kind.name);
  }
  return out;
}

class Reader : private YamlSource {
 public:
  explicit Reader(const std::string& name) : YamlSource(name) {}

  Result<std::vector<WorkerSpec>> read(const YAML::Node& root) {
    if (!root.IsMap()) return fault(root, "a workers file is a map with `workers`, a list");
    if (auto unique = check_unique(root); !unique) return unique.error();
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || entry.first.Scalar() != "workers") return unknown(entry.first, {"workers"}, "");
    }
    const YAML::Node list = root["workers"];
    if (!list || !list.IsSequence() || list.size() == 0) return fault(root, "`workers` is a list of at least one");
    if (list.size() > kWorkersMax) return fault(list, fmt::format("at most {} workers", kWorkersMax));
    std::vector<WorkerSpec> specs;
    std::set<std::string> names;
    for (const auto& item : list) {
      auto spec = read_worker(item);
      if (!spec) return spec.error();
      if (!names.insert(spec->name).second) return fault(item, fmt::format("two workers are named `{}`", spec->name));
      specs.push_back(*std::move(spec));
    }
    return specs;
  }

 private:
  Result<WorkerSpec> read_worker(const YAML::Node& item) const {
    if (!item.IsMap())
      return fault(item, "a worker is a map, such as {name: a, kind: vllm, url: http://127.0.0.1:8000}");
    if (auto unique = check_unique(item); !unique) return unique.error();
    WorkerSpec spec;
    for (const auto& entry : item) {
      if (auto read = read_key(entry.first, entry.second, spec); !read) return read.error();
    }
    if (auto checked = check(item, spec); !checked) return checked.error();
    return spec;
  }

  Result<void> read_key(const YAML::Node& key, const YAML::Node& value, WorkerSpec& spec) const {
    const std::string word = key.IsScalar() ? key.Scalar() : std::string();
    std::vector<std::string> known;
    for (const TextKey& row : kTextKeys) {
      known.emplace_back(row.name);
      if (row.name != word) continue;
      if (!value.IsScalar()) return fault(value, fmt::format("`{}` has one value", word));
      spec.*row.member = value.Scalar();
      return {};
    }
    known.emplace_back("bind");
    if (word != "bind") return unknown(key, known, " of a worker");
    if (!value.IsScalar() || (value.Scalar() != "true" && value.Scalar() != "false")) {
      return fault(value, "`bind` is true or false");
    }
    spec.bind = value.Scalar() == "true";
    return {};
  }

  Result<void> check(const YAML::Node& item, WorkerSpec& spec) const {
    for (const auto& [key, value] : {std::pair("name", &spec.name), {"kind", &spec.kind}, {"url", &spec.url}}) {
      if (value->empty()) return fault(item, fmt::format("a worker needs `{}`", key));
    }
    const auto about = [&](std::string_view what) {
      return fault(item, fmt::format("worker `{}`: {}", spec.name, what));
    };
    const bool is_word = std::ranges::all_of(spec.name, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
    if (!is_word || spec.name.size() > kNameBytesMax) return about("a name is a word of ASCII, such as gpu-1");
    const auto kind = std::ranges::find(kKinds, spec.kind, &Kind::name);
    if (kind == kKinds.end()) {
      return about(fmt::format("there is no kind `{}`; kinds are: {}", spec.kind, built_kinds()));
    }
    if (!kind->is_built) {
      return about(fmt::format("kind `{}` is not built yet; built are: {}", spec.kind, built_kinds()));
    }
    auto url = engine::parse_worker_url(spec.url);
    if (!url) return about("`url` " + url.error().message);
    spec.at = *std::move(url);
    if (std::ranges::find(kParsers, spec.parser) == kParsers.end()) {
      return about(fmt::format("there is no parser `{}` yet; there are: {}", spec.parser, fmt::join(kParsers, ", ")));
    }
    // Replay is always asked for by who listens: only the events' own socket may be bound here.
    for (const auto& [key, endpoint, bind] :
         {std::tuple("events", &spec.events, spec.bind), {"replay", &spec.replay, false}}) {
      if (endpoint->empty()) continue;
      if (auto checked = engine::events::check_endpoint(*endpoint, bind, key); !checked) {
        return about(checked.error().message);
      }
    }
    return check_tokenizer(item, spec);
  }

  Result<void> check_tokenizer(const YAML::Node& item, WorkerSpec& spec) const {
    const auto about = [&](std::string_view what) {
      return fault(item, fmt::format("worker `{}`: {}", spec.name, what));
    };
    if (spec.tokenizer.empty()) {
      return about(
          "`tokenizer` is missing: kvern sends this worker token ids, so it needs the GGUF file of the same "
          "model for vocabulary and chat template (its weights are not loaded)");
    }
    std::filesystem::path path(spec.tokenizer);
    if (path.is_relative()) path = std::filesystem::path(name()).parent_path() / path;
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      return about(fmt::format("`tokenizer` {} is a folder: Hugging Face folders are not read yet; name a GGUF file",
                               path.string()));
    }
    spec.tokenizer = path.string();
    return {};
  }
};

}  // namespace

bool WorkerSpec::operator==(const WorkerSpec& other) const {
  const bool same_texts =
      std::ranges::all_of(kTextKeys, [&](const TextKey& row) { return this->*row.member == other.*row.member; });
  return same_texts && bind == other.bind;
}

Result<std::vector<WorkerSpec>> parse_workers(const std::string& text, const std::string& name) {
  const auto document = load_yaml(text, YamlSource(name));
  if (!document) return document.error();
  return Reader(name).read(*document);
}

Result<std::vector<WorkerSpec>> read_workers_file(const std::string& path) {
  const auto content = read_file(path, kFileBytesMax);
  if (!content) return fail(content.error().code, "workers file: " + content.error().message);
  return parse_workers(*content, path);
}

}  // namespace kvern::app
