// What `kvern doctor` found, for people and for scripts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::app {

/// kInfo is neither good nor bad: what was not asked for, or cannot be known.
enum class Finding : std::uint8_t { kOk, kInfo, kWarning, kFault };

struct Check {
  std::string what;  // "token ids"
  Finding finding = Finding::kOk;
  std::string found;   // what is so
  std::string costs;   // what it costs, where it is not well
  std::string remedy;  // the flag to add, or what to do
};

struct Patient {
  std::string name;
  std::string kind;
  std::string url;
  std::vector<Check> checks;
};

/// Nothing is wrong, and nothing could be better.
bool all_well(const std::vector<Patient>& patients);
std::string render_text(const std::vector<Patient>& patients);
/// {"well": false, "error", "workers": []}: nothing could be examined.
std::string render_json_error(std::string_view error);
/// {"well", "workers": [{"name", "kind", "url", "checks": [{"what", "finding", "found", "costs"?, "remedy"?}]}]}.
std::string render_json(const std::vector<Patient>& patients);

}  // namespace kvern::app
