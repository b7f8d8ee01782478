// Words for whoever runs the process, on stderr. A stderr that is closed, full or read by nobody costs the words, never
// the process: nothing here throws or blocks for longer than said.
#pragma once

#include <chrono>
#include <string_view>

namespace kvern {

/// Writes to stderr; gives up when it takes nothing for `patience`. True when all was written. Thread-safe; lines of
/// two threads may interleave beyond 4 KB.
bool write_stderr(std::string_view text, std::chrono::milliseconds patience = std::chrono::milliseconds(200));

/// Opens /dev/null on whichever of stdin, stdout and stderr is closed, so that no file or socket takes their numbers
/// and gets what is meant for a terminal. First thing in main.
void keep_standard_descriptors();

}  // namespace kvern
