#include "app/yaml_source.h"

#include <fmt/format.h>

#include <set>

#include "base/text.h"

namespace kvern::app {

Error YamlSource::fault(const YAML::Node& at, std::string_view what) const {
  return fail(ErrorCode::kInvalidRequest, fmt::format("{} line {}: {}", name_, at.Mark().line + 1, what));
}

Result<void> YamlSource::check_unique(const YAML::Node& map) const {
  std::set<std::string> seen;
  for (const auto& entry : map) {
    if (entry.first.IsScalar() && !seen.insert(entry.first.Scalar()).second) {
      return fault(entry.first, fmt::format("`{}` stands here twice", entry.first.Scalar()));
    }
  }
  return {};
}

Error YamlSource::unknown(const YAML::Node& key, const std::vector<std::string>& known, std::string_view where) const {
  const std::string word = key.IsScalar() ? key.Scalar() : std::string();
  const auto guess = nearest(word, known);
  return fault(key, fmt::format("unknown key `{}`{}{}", word, where,
                                guess ? fmt::format("; did you mean `{}`?", *guess)
                                      : fmt::format("; known are {}", join(known, ", "))));
}

Result<YAML::Node> load_yaml(const std::string& text, const YamlSource& source) {
  try {
    const auto documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return fail(ErrorCode::kInvalidRequest,
                  fmt::format("{}: holds several YAML documents; one is read", source.name()));
    }
    return documents.empty() ? YAML::Node() : documents.front();
  } catch (const YAML::Exception& exception) {
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("{} line {}: {}", source.name(), exception.mark.line + 1, exception.msg));
  }
}

}  // namespace kvern::app
