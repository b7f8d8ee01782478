#include "net/bench/load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "net/bench/loopback.h"
#include "net/headers.h"
#include "net/socket.h"

namespace kvern::net {
namespace {

using Time = std::chrono::steady_clock::time_point;

float microseconds(Time from, Time to) { return std::chrono::duration<float, std::micro>(to - from).count(); }

Distribution summary(std::vector<float>& values) {
  Distribution out;
  out.count = values.size();
  if (values.empty()) return out;
  std::ranges::sort(values);
  const auto at = [&](double part) {
    const double rank = part * static_cast<double>(values.size());
    return static_cast<double>(values[std::min(values.size() - 1, static_cast<std::size_t>(rank))]);
  };
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  out.mean = sum / static_cast<double>(out.count);
  out.p50 = at(0.5);
  out.p99 = at(0.99);
  out.max = static_cast<double>(values.back());
  return out;
}

constexpr std::size_t kShownBytes = 600;

/// Reads one answer as it comes. Trusts the server to speak HTTP; what it does not understand is an error.
class AnswerReader {
 public:
  enum class State { kMore, kDone, kFailed };

  void begin() { *this = AnswerReader(); }
  State feed(std::string_view bytes) {
    if (part_ == Part::kHead && !take_head(bytes)) return failed_ ? State::kFailed : State::kMore;
    return chunked_ ? feed_chunked(bytes) : feed_sized(bytes);
  }
  int status() const { return status_; }
  bool is_stream() const { return stream_; }
  bool keeps_alive() const { return keep_alive_; }
  /// Events since the last call.
  std::uint32_t take_events() { return std::exchange(events_, 0); }

 private:
  enum class Part { kHead, kSizeLine, kData, kDataEnd, kBody };

  /// True when the head is whole; `bytes` is then what follows it.
  bool take_head(std::string_view& bytes) {
    const std::size_t before = head_.size();
    head_.append(bytes);
    const std::size_t end = head_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
    if (end == std::string::npos) return false;
    bytes.remove_prefix(end + 4 - before);
    const std::string_view head = std::string_view(head_).substr(0, end + 2);
    const auto number = head.substr(std::min<std::size_t>(9, head.size()), 3);
    std::from_chars(number.data(), number.data() + number.size(), status_);
    std::size_t length = 0;
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const std::size_t stop = head.find("\r\n", at);
      take_field(head.substr(at, stop - at), length);
      at = stop + 2;
    }
    part_ = chunked_ ? Part::kSizeLine : Part::kBody;
    need_ = length;
    return true;
  }
  void take_field(std::string_view line, std::size_t& length) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (equal_ignoring_case(name, "content-length")) std::from_chars(value.data(), value.data() + value.size(), length);
    if (equal_ignoring_case(name, "transfer-encoding")) chunked_ = true;
    if (equal_ignoring_case(name, "connection")) keep_alive_ = !equal_ignoring_case(value, "close");
    if (equal_ignoring_case(name, "content-type")) stream_ = value.starts_with("text/event-stream");
  }

  State feed_sized(std::string_view bytes) {
    need_ -= std::min(need_, bytes.size());
    return need_ == 0 ? State::kDone : State::kMore;
  }

  State feed_chunked(std::string_view bytes) {
    while (!bytes.empty()) {
      switch (part_) {
        case Part::kSizeLine: {
          const std::size_t end = bytes.find('\n');
          line_.append(bytes.substr(0, end));
          if (end == std::string_view::npos) return State::kMore;
          bytes.remove_prefix(end + 1);
          const auto [stop, fault] = std::from_chars(line_.data(), line_.data() + line_.size(), need_, 16);
          if (fault != std::errc{}) return State::kFailed;
          last_ = need_ == 0;
          line_.clear();
          part_ = last_ ? Part::kDataEnd : Part::kData;
          if (last_) need_ = 2;
          break;
        }
        case Part::kData: {
          const std::size_t taken = std::min(need_, bytes.size());
          if (stream_) count_events(bytes.substr(0, taken));
          need_ -= taken;
          bytes.remove_prefix(taken);
          if (need_ > 0) return State::kMore;
          part_ = Part::kDataEnd;
          need_ = 2;
          break;
        }
        default: {
          const std::size_t taken = std::min(need_, bytes.size());
          need_ -= taken;
          bytes.remove_prefix(taken);
          if (need_ > 0) return State::kMore;
          if (last_) return State::kDone;
          part_ = Part::kSizeLine;
        }
      }
    }
    return State::kMore;
  }
  /// An event ends with an empty line.
  void count_events(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        if (line_is_empty_) ++events_;
        line_is_empty_ = !line_is_empty_;
      } else if (c != '\r') {
        line_is_empty_ = false;
      }
    }
  }

  Part part_ = Part::kHead;
  std::string head_;
  std::string line_;
  std::size_t need_ = 0;
  std::uint32_t events_ = 0;
  int status_ = 0;
  bool chunked_ = false;
  bool stream_ = false;
  bool keep_alive_ = true;
  bool last_ = false;
  bool failed_ = false;
  bool line_is_empty_ = false;
};

struct Connection {
  UniqueFd socket;
  AnswerReader reader;
  std::size_t sent = 0;
  Time asked;
  std::optional<Time> last_event;
  bool busy = false;
};

class Generator {
 public:
  explicit Generator(const LoadOptions& options)
      : options_(options),
        request_(fmt::format("POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                             "content-length: {}\r\n\r\n{}",
                             options.path, options.body.size(), options.body)),
        connections_(options.connections),
        buffer_(256U << 10U),
        poller_(epoll_create1(EPOLL_CLOEXEC)) {}

  Result<LoadResult> run() {
    const Time start = std::chrono::steady_clock::now();
    const Time no_new = start + options_.send_for;
    const Time give_up = no_new + options_.wait_for;
    for (auto& connection : connections_) {
      if (!dial(connection)) return fail(ErrorCode::kUnavailable, "nothing answers at the port to be measured");
      ask(connection, no_new);
    }
    std::array<epoll_event, 512> ready{};
    while (busy_ > 0 && std::chrono::steady_clock::now() < give_up) {
      const int count = epoll_wait(poller_.get(), ready.data(), static_cast<int>(ready.size()), 200);
      for (int i = 0; i < count; ++i) {
        Connection& connection = connections_[ready[static_cast<std::size_t>(i)].data.u64];
        if ((ready[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) send(connection);
        if (connection.busy) receive_from(connection, no_new);
      }
    }
    result_.errors += busy_;
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result_.latency = summary(latencies_);
    result_.first_event = summary(first_events_);
    result_.gap = summary(gaps_);
    return result_;
  }

 private:
  bool dial(Connection& connection) {
    // A connect is immediate, or the server's queue is full, and then waiting is right.
    connection.socket = connect_loopback(options_.port);
    if (!connection.socket.valid()) return false;
    tune_connection(connection.socket.get(), options_.wait_for);
    fcntl(connection.socket.get(), F_SETFL, O_NONBLOCK);
    watch(connection, EPOLL_CTL_ADD, EPOLLIN);
    return true;
  }

  void watch(Connection& connection, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = static_cast<std::uint64_t>(&connection - connections_.data());
    epoll_ctl(poller_.get(), operation, connection.socket.get(), &event);
  }

  void ask(Connection& connection, Time no_new) {
    const Time now = std::chrono::steady_clock::now();
    if (asked_ >= options_.requests_max || now >= no_new) return;
    ++asked_;
    ++busy_;
    connection.busy = true;
    connection.reader.begin();
    connection.sent = 0;
    connection.asked = now;
    connection.last_event.reset();
    send(connection);
  }

  void send(Connection& connection) {
    const std::string_view rest = std::string_view(request_).substr(connection.sent);
    if (rest.empty()) return;
    std::size_t sent = 0;
    const IoStatus status = send_parts(connection.socket.get(), rest, {}, {}, sent);
    connection.sent += sent;
    if (status == IoStatus::kClosed) return;  // reading says so, too
    const bool whole = connection.sent == request_.size();
    if (!whole || rest.size() != request_.size()) {
      watch(connection, EPOLL_CTL_MOD, whole ? EPOLLIN : EPOLLIN | EPOLLOUT);
    }
  }

  void receive_from(Connection& connection, Time no_new) {
    std::size_t received = 0;
    const IoStatus status = receive(connection.socket.get(), buffer_.data(), buffer_.size(), received);
    if (status == IoStatus::kWouldBlock) return;
    const Time now = std::chrono::steady_clock::now();
    auto state = AnswerReader::State::kFailed;
    if (status == IoStatus::kOk) state = connection.reader.feed({buffer_.data(), received});
    note_events(connection, now);
    if (state == AnswerReader::State::kMore) return;

    --busy_;
    connection.busy = false;
    const bool good = state == AnswerReader::State::kDone && connection.reader.status() == 200;
    if (good) {
      ++result_.answers;
      latencies_.push_back(microseconds(connection.asked, now));
    } else {
      ++result_.errors;
      if (result_.first_error.empty()) {
        result_.first_error = status == IoStatus::kOk ? std::string(buffer_.data(), std::min(received, kShownBytes))
                                                      : "the connection broke";
      }
    }
    if (!good || !connection.reader.keeps_alive()) {
      connection.socket.reset();
      if (!dial(connection)) return;
    }
    ask(connection, no_new);
  }

  void note_events(Connection& connection, Time now) {
    const std::uint32_t events = connection.reader.take_events();
    if (events == 0) return;
    ++result_.reads;
    result_.events += events;
    if (connection.last_event) {
      gaps_.push_back(microseconds(*connection.last_event, now));
    } else {
      first_events_.push_back(microseconds(connection.asked, now));
    }
    gaps_.insert(gaps_.end(), events - 1, 0.0F);
    connection.last_event = now;
  }

  const LoadOptions options_;
  const std::string request_;
  std::vector<Connection> connections_;
  std::vector<char> buffer_;
  UniqueFd poller_;
  std::uint64_t asked_ = 0;
  std::uint64_t busy_ = 0;
  LoadResult result_;
  std::vector<float> latencies_, first_events_, gaps_;
};

}  // namespace

Result<LoadResult> run_load(const LoadOptions& options) { return Generator(options).run(); }

}  // namespace kvern::net
