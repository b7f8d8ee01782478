#include "app/key_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvern::app {
namespace {

constexpr std::string_view kShape = "`keys` is a list of {name, tenant, sha256 or env, and perhaps trusted, admin}";

bool is_digest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

class KeyReader {
 public:
  KeyReader(const YAML::Node& entry, const YamlSource& source) : entry_(entry), source_(source) {}

  Result<KeySpec> read() {
    if (!entry_.IsMap()) return source_.fault(entry_, kShape);
    if (auto unique = source_.check_unique(entry_); !unique) return unique.error();
    for (const auto& member : entry_) {
      if (auto taken = take(member.first, member.second); !taken) return taken.error();
    }
    if (auto whole = check(); !whole) return whole.error();
    spec_.where = fmt::format("{} line {}", source_.name(), entry_.Mark().line + 1);
    return spec_;
  }

 private:
  Result<void> take(const YAML::Node& key, const YAML::Node& value) {
    const std::string word = key.IsScalar() ? key.Scalar() : std::string();
    if (word == "trusted") return take_flag(word, value, spec_.trusted);
    if (word == "admin") return take_flag(word, value, spec_.admin);
    std::string* const text = word == "name"     ? &spec_.name
                              : word == "tenant" ? &spec_.tenant
                              : word == "sha256" ? &spec_.sha256
                              : word == "env"    ? &spec_.env
                                                 : nullptr;
    if (text == nullptr) {
      return source_.unknown(key, {"name", "tenant", "sha256", "env", "trusted", "admin"}, " in `keys`");
    }
    if (!value.IsScalar() || value.Scalar().empty()) return source_.fault(value, fmt::format("`{}` is a word", word));
    *text = value.Scalar();
    return {};
  }

  Result<void> take_flag(const std::string& word, const YAML::Node& value, bool& out) {
    if (!value.IsScalar() || (value.Scalar() != "true" && value.Scalar() != "false")) {
      return source_.fault(value, fmt::format("`{}` is true or false", word));
    }
    out = value.Scalar() == "true";
    return {};
  }

  Result<void> check() {
    if (spec_.name.empty()) return source_.fault(entry_, "an entry of `keys` needs a name");
    const auto needs = [&](std::string_view what) {
      return source_.fault(entry_, fmt::format("the key `{}` {}", spec_.name, what));
    };
    if (spec_.tenant.empty()) return needs("needs a tenant: whose requests these are, such as `default`");
    if (spec_.sha256.empty() == spec_.env.empty()) {
      return needs(
          "needs either sha256 (the digest of the key: printf %s \"$KEY\" | sha256sum) or env (the variable that holds "
          "the key)");
    }
    if (!spec_.sha256.empty() && !is_digest(spec_.sha256)) {
      return needs("has a sha256 that is not 64 hex digits (printf %s \"$KEY\" | sha256sum prints them)");
    }
    std::ranges::transform(spec_.sha256, spec_.sha256.begin(),
                           [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    return {};
  }

  const YAML::Node entry_;
  const YamlSource& source_;
  KeySpec spec_;
};

}  // namespace

Result<std::vector<KeySpec>> read_keys(const YAML::Node& list, const YamlSource& source) {
  if (!list.IsSequence()) return source.fault(list, kShape);
  std::vector<KeySpec> keys;
  for (const auto& entry : list) {
    auto spec = KeyReader(entry, source).read();
    if (!spec) return std::move(spec).error();
    keys.push_back(*std::move(spec));
  }
  return keys;
}

void print_keys(const std::vector<KeySpec>& keys, YAML::Emitter& out) {
  out << YAML::Key << "keys" << YAML::Value << YAML::BeginSeq;
  for (const KeySpec& key : keys) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << key.name << YAML::Key << "tenant" << YAML::Value
        << key.tenant;
    const bool is_digest = !key.sha256.empty();
    out << YAML::Key << (is_digest ? "sha256" : "env") << YAML::Value << YAML::DoubleQuoted
        << (is_digest ? key.sha256 : key.env);
    if (key.trusted) out << YAML::Key << "trusted" << YAML::Value << true;
    if (key.admin) out << YAML::Key << "admin" << YAML::Value << true;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

}  // namespace kvern::app
