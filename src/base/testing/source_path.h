// For tests: where their data lies. Only source_path.cc knows the folder of this checkout, so that every other object
// is the same in each, and ccache finds it.
#pragma once

#include <string>
#include <string_view>

namespace kvern {

/// The absolute path of a file or folder under src/: source_path("parser/cases").
std::string source_path(std::string_view under_src);

}  // namespace kvern
