// Internal to net's readers (the one header with Beast in it): bytes in, steps out, for requests and responses alike.
// Scanners cut the stream into complete pieces (head, chunk line, trailers, data); Beast parses each piece. Holds at
// most one unfinished head or chunk line, never body bytes: those are handed out as views of the input.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "net/line_scanner.h"
#include "net/reader_step.h"

namespace kvern::net {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

inline std::string_view to_std(BeastView view) { return {view.data(), view.size()}; }

/// Beast's parser with its findings as plain members.
template <bool kRequest>
class BeastMessage final : public http::basic_parser<kRequest> {
 public:
  std::string method;
  std::string target;
  int status = 0;
  int version = 0;
  Headers headers;
  std::string_view piece;  // body bytes of the last put
  std::uint64_t chunk_size = 0;
  bool too_many_fields = false;
  std::size_t fields_max = 0;

 private:
  void on_request_impl(http::verb, BeastView m, BeastView t, int v, BeastError&) override {
    method.assign(m.data(), m.size());
    target.assign(t.data(), t.size());
    version = v;
  }
  void on_response_impl(int code, BeastView, int v, BeastError&) override {
    status = code;
    version = v;
  }
  void on_field_impl(http::field, BeastView name, BeastView value, BeastError& error) override {
    if (header_done_) return;  // trailers are dropped: they must never look like headers
    if (headers.size() >= fields_max) {
      too_many_fields = true;
      error = http::error::header_limit;
      return;
    }
    headers.emplace_back(std::string(to_std(name)), std::string(to_std(value)));
  }
  void on_header_impl(BeastError&) override { header_done_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(BeastView body, BeastError&) override {
    piece = to_std(body);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t size, BeastView, BeastError&) override { chunk_size = size; }
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, BeastError&) override {
    piece = to_std(body);
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  bool header_done_ = false;
};

template <bool kRequest>
class MessageReader {
 public:
  explicit MessageReader(const ReaderLimits& limits) : limits_(limits) {
    message_.header_limit(std::numeric_limits<std::uint32_t>::max());  // the bound is kept here, over the whole head
    message_.body_limit(limits.body_bytes_max);
    message_.fields_max = limits.header_fields_max;
  }

  /// Goes one step on, taking what it used off the front of `bytes`.
  ReaderStep feed(std::string_view& bytes) {
    for (;;) {
      switch (phase_) {
        case Phase::kHead: return feed_head(bytes);
        case Phase::kLength:
        case Phase::kEof:
        case Phase::kChunkData:
          if (bytes.empty()) return ReaderStep::kMore;
          return feed_data(bytes);
        case Phase::kChunkLine:
        case Phase::kTrailers:
          if (bytes.empty()) return ReaderStep::kMore;
          if (const ReaderStep step = phase_ == Phase::kChunkLine ? feed_chunk_line(bytes) : feed_trailers(bytes);
              step != ReaderStep::kBody) {
            return step;
          }
          break;  // a line was taken: on with what follows it
        case Phase::kDone: return ReaderStep::kDone;
        case Phase::kFailed: return ReaderStep::kFailed;
      }
    }
  }

  /// The stream ended. True if that ends the message properly (a body that runs to the end of the stream).
  bool end_of_stream() {
    if (phase_ == Phase::kEof) phase_ = Phase::kDone;
    return phase_ == Phase::kDone;
  }

  ReaderStep fail(int status, const char* reason) {
    failure_ = {status, reason};
    phase_ = Phase::kFailed;
    return ReaderStep::kFailed;
  }

  BeastMessage<kRequest>& message() { return message_; }
  const ReaderFailure& failure() const { return failure_; }
  std::string_view piece() const { return message_.piece; }
  /// Bytes of a message have come.
  bool started() const { return phase_ != Phase::kHead || !head_.blank(); }
  /// The first line of the head last parsed, for telling a strange version from a broken line.
  const std::string& first_line() const { return first_line_; }

 private:
  enum class Phase { kHead, kLength, kEof, kChunkLine, kChunkData, kTrailers, kDone, kFailed };

  ReaderStep feed_head(std::string_view& bytes) {
    const std::size_t room = limits_.header_bytes_max - held_.size();
    std::size_t used = 0;
    const ScanVerdict verdict = head_.scan(bytes.substr(0, room), used);
    if (verdict == ScanVerdict::kBad) return fail(400, "the head holds a byte or line ending that HTTP does not allow");
    if (verdict == ScanVerdict::kMore) {
      if (head_.blank()) {
        held_.clear();
      } else {
        held_.append(bytes.substr(0, used));
      }
      bytes.remove_prefix(used);
      if (held_.size() >= limits_.header_bytes_max) return fail(431, "the head is larger than this server takes");
      return ReaderStep::kMore;
    }
    std::string_view head = bytes.substr(0, used);
    if (!held_.empty()) {
      held_.append(head);
      head = held_;
    }
    while (head.starts_with("\r\n")) head.remove_prefix(2);
    bytes.remove_prefix(used);
    const ReaderStep step = parse_head(head);
    held_ = std::string();
    return step;
  }

  ReaderStep parse_head(std::string_view head) {
    first_line_ = head.substr(0, head.find('\r'));
    BeastError error;
    put_whole(head, error);
    if (error) return fail_parse(error);
    if (message_.is_done()) {
      phase_ = Phase::kDone;
    } else if (message_.chunked()) {
      phase_ = Phase::kChunkLine;
    } else if (message_.content_length()) {
      phase_ = Phase::kLength;
    } else {
      phase_ = Phase::kEof;
    }
    return ReaderStep::kHead;
  }

  ReaderStep feed_data(std::string_view& bytes) {
    std::string_view data = bytes;
    if (phase_ == Phase::kChunkData) data = data.substr(0, message_.chunk_size);
    BeastError error;
    message_.piece = {};
    const std::size_t used = put(data, error);
    if (error) return fail_parse(error);
    KV_DCHECK(used > 0);
    bytes.remove_prefix(used);
    if (phase_ == Phase::kChunkData) {
      message_.chunk_size -= used;
      if (message_.chunk_size == 0) {
        phase_ = Phase::kChunkLine;
        line_ = ChunkLineScanner(false);
      }
    } else if (message_.is_done()) {
      phase_ = Phase::kDone;
    }
    return ReaderStep::kBody;
  }

  ReaderStep feed_chunk_line(std::string_view& bytes) {
    const std::size_t room = limits_.chunk_line_max - held_.size();
    std::size_t used = 0;
    const ScanVerdict verdict = line_.scan(bytes.substr(0, room), used);
    if (verdict == ScanVerdict::kBad) return fail(400, "a chunk of the body has a malformed size line");
    held_.append(bytes.substr(0, used));
    bytes.remove_prefix(used);
    if (verdict == ScanVerdict::kMore) {
      if (held_.size() >= limits_.chunk_line_max) return fail(431, "a chunk's size line is too long");
      return ReaderStep::kMore;
    }
    if (line_.last()) {  // Beast wants the last chunk together with its trailers
      phase_ = Phase::kTrailers;
      head_ = HeadScanner(true);
      return ReaderStep::kBody;
    }
    BeastError error;
    put_whole(held_, error);
    held_.clear();
    if (error) return fail_parse(error);
    phase_ = Phase::kChunkData;
    return ReaderStep::kBody;
  }

  ReaderStep feed_trailers(std::string_view& bytes) {
    const std::size_t room = limits_.chunk_line_max + limits_.trailer_bytes_max - held_.size();
    std::size_t used = 0;
    const ScanVerdict verdict = head_.scan(bytes.substr(0, room), used);
    if (verdict == ScanVerdict::kBad) return fail(400, "the trailers hold a byte that HTTP does not allow");
    held_.append(bytes.substr(0, used));
    bytes.remove_prefix(used);
    if (verdict == ScanVerdict::kMore) {
      if (used == room) return fail(431, "the trailers are larger than this server takes");
      return ReaderStep::kMore;
    }
    BeastError error;
    put_whole(held_, error);
    held_ = std::string();
    if (error) return fail_parse(error);
    phase_ = Phase::kDone;
    return ReaderStep::kDone;
  }

  std::size_t put(std::string_view bytes, BeastError& error) {
    return message_.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  }
  /// A complete head or line. A parser that wants more of it, or leaves some of it, has met something malformed.
  void put_whole(std::string_view bytes, BeastError& error) {
    if (put(bytes, error) != bytes.size() && !error) error = http::error::bad_value;
  }

  ReaderStep fail_parse(const BeastError& error) {
    if (message_.too_many_fields) return fail(431, "the head has more fields than this server takes");
    if (error == http::error::body_limit) return fail(413, "the body is larger than this server takes");
    if (error == http::error::bad_version) return fail(505, "unknown HTTP version");
    return fail(400, "malformed HTTP message");
  }

  const ReaderLimits limits_;
  BeastMessage<kRequest> message_;
  Phase phase_ = Phase::kHead;
  HeadScanner head_;
  ChunkLineScanner line_{true};
  std::string held_;  // the unfinished head, chunk line or trailers
  std::string first_line_;
  ReaderFailure failure_;
};

}  // namespace kvern::net
