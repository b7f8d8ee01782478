// A TCP client for tests that sends exactly the bytes it is told and reads with a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/socket.h"

namespace kvern::net::testing {

struct Answer {
  int status = 0;
  std::string head;  // status line and fields, lower case names as the server writes them
  std::string body;  // chunks taken apart
  bool complete = false;
};

class RawClient {
 public:
  /// Connects to 127.0.0.1; `receive_buffer` > 0 makes a reader that can hold little.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0);

  bool connected() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  /// Sends all, waiting for room; false when the connection broke.
  bool send(std::string_view bytes);
  /// Sends what fits at once; the count.
  std::size_t send_some(std::string_view bytes);
  void half_close();
  void close() { socket_.reset(); }

  /// Reads one answer; `head_only` for HEAD. Interim answers come as answers of their own. Incomplete at the deadline.
  Answer read_answer(bool head_only = false, std::chrono::milliseconds within = std::chrono::seconds(10));
  /// Reads until `text` has come; everything read so far.
  std::string read_until(std::string_view text, std::chrono::milliseconds within = std::chrono::seconds(10));
  /// Reads up to the server's close; everything it sent. `closed()` says whether it did.
  std::string read_all(std::chrono::milliseconds within = std::chrono::seconds(10));
  bool closed() const { return closed_; }

 private:
  bool fill(std::chrono::steady_clock::time_point until);

  UniqueFd socket_;
  std::string held_;
  bool closed_ = false;
};

}  // namespace kvern::net::testing
