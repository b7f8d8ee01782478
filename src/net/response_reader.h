// Bytes of a worker's connection -> one response, without a socket. As strict about framing as the request side, since
// a pooled connection whose end of message is in doubt could hand one request's answer to another. Interim answers
// (1xx) are passed over, up to a few. The result is the same for every split of the bytes.
#pragma once

#include <memory>
#include <string_view>

#include "net/headers.h"
#include "net/reader_step.h"

namespace kvern::net {

struct ClientHead {
  int status = 0;
  Headers headers;
};

class ResponseReader {
 public:
  /// `head_request`: the answer is to a HEAD, so it has no body whatever it announces.
  ResponseReader(const ReaderLimits& limits, bool head_request);
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  ReaderStep feed(std::string_view& bytes);
  /// The stream ended; true if that completes the message (a body without a length).
  bool end_of_stream();
  /// Valid from kHead on; may be moved away.
  ClientHead& head();
  /// After kBody, until the input that was fed goes away.
  std::string_view piece() const;
  const ReaderFailure& failure() const;
  /// After kDone: the connection may carry another request.
  bool keep_alive() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern::net
