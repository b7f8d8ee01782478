// What net's message readers share with their users: limits, steps and failures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "net/headers.h"

namespace kvern::net {

struct ReaderLimits {
  std::size_t header_bytes_max = 64U << 10U;
  std::size_t header_fields_max = 256;
  std::uint64_t body_bytes_max = 32U << 20U;
  /// A chunk's size line with its extension and line ends.
  std::size_t chunk_line_max = 1024;
  std::size_t trailer_bytes_max = 8U << 10U;
};

enum class ReaderStep {
  kMore,    // all input is used up, and more is needed
  kHead,    // the head is there; once per message
  kBody,    // piece() is the next part of the body
  kDone,    // the message is complete; what is left of the input belongs to the next one
  kFailed,  // failure() says why; stays so
};

/// `status` is what a server answers; `reason` is fixed text.
struct ReaderFailure {
  int status = 0;
  const char* reason = "";
};

}  // namespace kvern::net
