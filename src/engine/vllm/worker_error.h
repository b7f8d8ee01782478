// What a worker's refusal means, in kvern's own words. The worker's text may hold its paths, addresses, another's data
// or the prompt (as token ids or as text), so it goes neither to a client nor to the log: of it the log gets `type` and
// `param`, and those only where they are a word. The worker's own log has the rest, under the request's id.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/headers.h"

namespace kvern::engine {

struct Refusal {
  Error error;
  /// It was about `priority`, which this worker's scheduler does not take: the same request without it will do.
  bool priority_refused = false;
  std::string type = {};   // "BadRequestError", for the log; or empty
  std::string param = {};  // likewise
};

/// `text` where it is the name of something (letters, digits, `_.-`, beginning with a letter, at most 64 bytes); else
/// empty.
std::string loggable_word(std::string_view text);

/// `status` is not 200. `body` may be anything.
Refusal read_refusal(int status, const net::Headers& headers, std::string_view body);

}  // namespace kvern::engine
