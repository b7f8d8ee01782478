// The head of an answer as bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/headers.h"

namespace kvern::net {

struct ResponseHead {
  int status = 200;
  bool http_1_1 = true;
  bool keep_alive = true;
  /// A body of known length; else a chunked one, or on 1.0 one that ends with the connection.
  std::optional<std::size_t> length;
};

/// Whether answers of this status have a body at all.
bool status_has_body(int status);

/// Appends the head with `date` (an HTTP date). Fields that frame the message (content-length, transfer-encoding,
/// connection, keep-alive, date) are the server's: those in `headers` are left out. A control byte in a field becomes a
/// space, so that no text from outside can start a line of its own.
void append_head(std::string& out, const ResponseHead& head, const Headers& headers, std::string_view date);

/// IMF-fixdate, always 29 characters.
std::string http_date(std::chrono::seconds unix_time);

}  // namespace kvern::net
