// What a dialect is to the rest of kvern: a decoder from a body to ir::Request, an encoder from ir events to bytes, and
// one function from Error to status and body. Dialects know no model and no socket. Each has a folder; api/registry.cc
// lists their endpoints, and the composition root makes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strong_id.h"
#include "ir/event.h"
#include "ir/request.h"

namespace kvern::api {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// A complete answer.
struct Reply {
  int status = 200;
  HeaderList headers;  // without content-length
  std::string body;
};

/// Turns the events of one request into bytes of a dialect. Used on one loop. Two kinds exist behind this interface:
/// streaming (SSE) and whole (one JSON document); `Call::stream` says which was made.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Takes the next event of a choice (below the request's answers()). Streaming: appends what it makes to `out`
  /// (complete SSE events, possibly none). Whole: collects, and appends the document to `out` at the last End.
  virtual void add(std::uint32_t choice, const ir::Event& event, std::string& out) = 0;
  /// The name to show as `model` once it is known; before the first other call. Until then it is the client's own.
  virtual void set_model(std::string_view name) = 0;
  /// A JSON object to stand as `nvext` in the answer: in the document, or in the last event of a stream. Before the
  /// last End, or never.
  virtual void set_extension(std::string json) = 0;
  /// Streaming only: bytes that keep the connection of a waiting client alive.
  virtual void keep_alive(std::string& out) = 0;
};

/// A decoded request and how its answer is to be written.
struct Call {
  ir::Request request;
  bool stream = false;
  std::unique_ptr<Encoder> encoder;
  /// What was taken and has no effect, for the log: "tools[3] web_search".
  std::vector<std::string> left_out;
};

/// What a decoder needs beside the body.
struct DecodeContext {
  RequestId id;
  std::chrono::seconds created{};       // unix time, for `created`
  std::string_view tenant = "default";  // whose request it is
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  /// Decodes a body. Unknown fields are ignored; a wrong type, a value out of range or a known field that is not served
  /// yet is an error naming the field in the caller's spelling.
  virtual Result<Call> decode(std::string_view body, const DecodeContext& context) const = 0;
  /// The one place where an Error becomes a status and a body of this dialect.
  virtual Reply error(const Error& error, RequestId id) const = 0;
  /// What this dialect adds to the headers of an answer that is no error.
  virtual HeaderList headers(RequestId) const { return {}; }
};

}  // namespace kvern::api
