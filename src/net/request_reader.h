// Bytes of a connection -> requests, without a socket. Strict where HTTP parsers disagree (message framing, Host, line
// ends, chunk sizes), since a disagreement between two parsers on one connection is how requests are smuggled. The
// result is the same for every split of the bytes. One reader reads one request.
//
//   while ((step = reader.feed(bytes)) == ReaderStep::kHead || step == ReaderStep::kBody) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/headers.h"
#include "net/reader_step.h"

namespace kvern::net {

struct RequestHead {
  std::string method;
  std::string target;  // as sent
  std::string path;    // target up to '?', percent-decoding not applied
  std::string query;   // after '?', or empty
  Headers headers;     // as sent, in order
  bool has_body = false;
};

class RequestReader {
 public:
  explicit RequestReader(const ReaderLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Goes one step on, taking what it used off the front of `bytes`. Linear in the bytes overall.
  ReaderStep feed(std::string_view& bytes);

  /// Bytes of a request have come (empty lines before it do not count).
  bool started() const;
  /// Valid from kHead on. After kFailed what is known of it: perhaps its path and headers, perhaps nothing.
  RequestHead& head();
  /// After kBody, until the input that was fed goes away.
  std::string_view piece() const;
  /// After kFailed.
  const ReaderFailure& failure() const;

  bool http_1_1() const;
  /// What the request says of the connection's life.
  bool keep_alive() const;
  /// The client waits for `100 Continue` before it sends the body.
  bool expects_continue() const;
  /// The announced length, if there is one.
  std::optional<std::uint64_t> content_length() const;

 private:
  ReaderStep feed_one(std::string_view& bytes);
  struct State;
  std::unique_ptr<State> state_;
};

/// RFC 3986's `host [":" port]`, not empty: a name, an IPv4 address, or an IPv6 address in brackets.
bool valid_host(std::string_view host);

}  // namespace kvern::net
