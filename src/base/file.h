// Reading a small file whole, with a bound: for configs and scripts.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace kvern {

/// The content of a file or pipe. kNotFound when it cannot be read (a folder, no permission), kTooLarge beyond
/// `bytes_max`; messages name the path, so they are for start-up only.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

}  // namespace kvern
