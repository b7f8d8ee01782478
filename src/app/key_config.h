// `keys:` of a config file.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "app/keys.h"
#include "app/yaml_source.h"
#include "base/result.h"

namespace kvern::app {

/// Reads a list of {name, tenant, sha256 | env, trusted?, admin?}. Errors name the line and what is to stand there.
/// Variables are not looked at: a config can be read, and printed, where its keys are not.
Result<std::vector<KeySpec>> read_keys(const YAML::Node& list, const YamlSource& source);

/// The entries as they would stand in a file; a key that comes from a variable is named, never shown.
void print_keys(const std::vector<KeySpec>& keys, YAML::Emitter& out);

}  // namespace kvern::app
