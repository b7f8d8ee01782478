// A worker of an adapter's test: listens on loopback, and answers each request with exactly the bytes it is told, whole
// or in pieces, or not at all. It also does what no good worker does: hang, break off, stop listening.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::engine::testing {

struct Asked {
  std::string method;
  std::string path;
  std::string head;  // with the request line
  std::string body;
  std::size_t connection = 0;  // counted from 0
};

struct Plan {
  enum class Then : std::uint8_t {
    kKeep,    // wait for the next request on this connection
    kClose,   // end the connection in order
    kReset,   // break it off
    kHang,    // say nothing more until the client hangs up
    kMurmur,  // comments without end, until then
  };
  std::vector<std::string> pieces;  // each sent by itself
  Then then = Then::kKeep;
};

/// A complete answer with a length.
std::string http_answer(int status, std::string_view body, std::string_view content_type = "application/json",
                        std::string_view more_headers = {});
/// Head of a streamed answer.
std::string sse_head();
/// One chunk of it, framed.
std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
/// A whole streamed answer of such data, one event and chunk each, [DONE] included.
Plan sse_answer(const std::vector<std::string>& data);
class FakeWorker {
 public:
  using Answer = std::function<Plan(const Asked&)>;
  /// `answer` is called on threads of the connections. /health, /v1/models (one model, `smol`, 1,024 tokens) and
  /// /version are answered without it, unless `answers_all`. `port` 0: a free one.
  explicit FakeWorker(Answer answer, bool answers_all = false, std::uint16_t port = 0);
  ~FakeWorker();
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;

  std::uint16_t port() const;
  /// Requests that `answer` was asked, and connections taken so far.
  std::size_t asked() const;
  std::size_t connections() const;
  /// Waits until so many clients have hung up in the middle of an answer (Plan::kHang).
  bool wait_hang_ups(std::size_t count);
  /// Closes the listening socket and every connection, as a process that dies.
  void die();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kvern::engine::testing
