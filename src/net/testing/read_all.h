// Runs a reader over bytes in given pieces and writes down all it says, for comparing splits.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "net/request_reader.h"
#include "net/response_reader.h"

namespace kvern::net::testing {

/// What came of a stream of bytes: "GET /a [host=x] <body> | ... | error 400 | more". Requests follow one another.
/// `cut` gives the size of the next piece (> 0).
std::string read_requests(std::string_view bytes, const ReaderLimits& limits, const std::function<std::size_t()>& cut);
/// The same for one response; `end` lets the stream end after the bytes.
std::string read_response(std::string_view bytes, const ReaderLimits& limits, bool end,
                          const std::function<std::size_t()>& cut);

/// All at once.
inline std::size_t whole() { return std::string_view::npos; }

}  // namespace kvern::net::testing
