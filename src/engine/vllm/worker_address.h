// Where a worker is, and what it is asked with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"
#include "net/http_client.h"

namespace kvern::engine {

struct WorkerUrl {
  std::string host;  // without brackets
  std::uint16_t port = 80;
  std::string path;  // before /v1, without a slash at its end; mostly empty
};
/// `http://HOST[:PORT][/PATH]`; a `/v1` at the end is taken off. Anything else (https, user info, query) is an error
/// that says what is wrong.
Result<WorkerUrl> parse_worker_url(std::string_view text);

struct WorkerAddress {
  WorkerUrl url;
  Secret api_key;  // empty: none is sent
};

/// A request to the worker: host, port, target and key are set; a body, where there is one, is JSON.
net::ClientRequest request_to(const WorkerAddress& worker, std::string_view method, std::string_view path,
                              std::string body = {});

}  // namespace kvern::engine
