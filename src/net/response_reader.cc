#include "net/response_reader.h"

#include <algorithm>
#include <optional>

#include "net/message_reader.h"

namespace kvern::net {
namespace {

constexpr int kInterimMax = 8;

/// Why this head's framing is in doubt, or null.
const char* framing_fault(const Headers& headers) {
  int lengths = 0;
  int encodings = 0;
  for (const auto& [name, value] : headers) {
    if (equal_ignoring_case(name, "content-length")) {
      ++lengths;
      if (value.empty() || !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return "the worker's Content-Length is no number";
      }
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
      ++encodings;
      if (!equal_ignoring_case(value, "chunked")) return "the worker uses an unknown Transfer-Encoding";
    }
  }
  if (lengths + encodings > 1) return "the worker frames its answer twice";
  return nullptr;
}

}  // namespace

struct ResponseReader::State {
  State(const ReaderLimits& reader_limits, bool head_only) : limits(reader_limits), head_request(head_only) {
    restart();
  }
  void restart() {
    reader.emplace(limits);
    reader->message().skip(head_request);
  }

  const ReaderLimits limits;
  const bool head_request;
  std::optional<MessageReader<false>> reader;
  ClientHead head;
  int interim = 0;
  bool to_end_of_stream = false;
};

ResponseReader::ResponseReader(const ReaderLimits& limits, bool head_request)
    : state_(std::make_unique<State>(limits, head_request)) {}
ResponseReader::~ResponseReader() = default;

ReaderStep ResponseReader::feed(std::string_view& bytes) {
  for (;;) {
    auto& reader = *state_->reader;
    const ReaderStep step = reader.feed(bytes);
    if (step != ReaderStep::kHead) return step;
    auto& message = reader.message();
    if (message.status >= 100 && message.status < 200) {
      if (message.status == 101) return reader.fail(502, "the worker switches protocols unasked");
      if (++state_->interim > kInterimMax) return reader.fail(502, "the worker sends interim answers without end");
      state_->restart();
      continue;
    }
    if (message.status < 200 || message.status > 599) return reader.fail(502, "the worker's status is out of range");
    if (const char* fault = framing_fault(message.headers)) return reader.fail(502, fault);
    state_->head = {message.status, std::move(message.headers)};
    state_->to_end_of_stream = message.need_eof();
    return step;
  }
}

bool ResponseReader::end_of_stream() { return state_->reader->end_of_stream(); }
ClientHead& ResponseReader::head() { return state_->head; }
std::string_view ResponseReader::piece() const { return state_->reader->piece(); }
const ReaderFailure& ResponseReader::failure() const { return state_->reader->failure(); }
bool ResponseReader::keep_alive() const { return !state_->to_end_of_stream && state_->reader->message().keep_alive(); }

}  // namespace kvern::net
