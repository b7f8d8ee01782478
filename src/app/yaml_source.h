// What every reader of a YAML file here needs: errors that name the file, the line, and the key that was perhaps meant.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvern::app {

class YamlSource {
 public:
  /// `name` is the file's, for messages.
  explicit YamlSource(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  Error fault(const YAML::Node& at, std::string_view what) const;
  /// No key of a map stands in it twice.
  Result<void> check_unique(const YAML::Node& map) const;
  /// The error for a key that is none, with the nearest known one. `where` is such as " in `models`".
  Error unknown(const YAML::Node& key, const std::vector<std::string>& known, std::string_view where) const;

 private:
  const std::string name_;
};

/// The one document of a text; a null node for an empty one. Faults of the syntax are errors with their line.
Result<YAML::Node> load_yaml(const std::string& text, const YamlSource& source);

}  // namespace kvern::app
