#include "net/request_reader.h"

#include <algorithm>

#include "net/message_reader.h"

namespace kvern::net {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

/// RFC 3986 reg-name (which every IPv4 address is, too).
bool valid_name(std::string_view name) {
  constexpr std::string_view kOthers = "-._~!$&'()*+,;=";
  if (name.empty()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '%') {
      if (i + 2 >= name.size() || !is_hex(name[i + 1]) || !is_hex(name[i + 2])) return false;
      i += 2;
    } else if (!is_alpha(c) && !is_digit(c) && kOthers.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

bool valid_port(std::string_view port) {
  if (port.size() > 5 || !all_digits(port)) return false;
  int value = 0;
  for (const char c : port) value = value * 10 + (c - '0');
  return value <= 65'535;
}

/// A well-formed request line, whatever its version.
bool ends_in_version(std::string_view line) {
  const std::size_t at = line.rfind(' ');
  if (std::count(line.begin(), line.end(), ' ') != 2) return false;
  const std::string_view version = line.substr(at + 1);
  return version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) && version[6] == '.' &&
         is_digit(version[7]);
}

/// Origin form, or `*` for OPTIONS. Authority form is a proxy's, and a fragment never travels.
bool valid_target(std::string_view method, std::string_view target) {
  if (target == "*") return method == "OPTIONS";
  if (!target.starts_with('/')) return false;
  return std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7F && c != '#'; });
}

/// Absolute form, which a server has to take as well (RFC 9112, 3.2.2): its authority stands for whatever Host says.
/// False when it names no host.
bool to_origin_form(std::string& target, Headers& headers) {
  const std::string_view whole = target;
  const std::size_t scheme = whole.substr(0, 8).find("://");
  if (scheme == std::string_view::npos) return true;
  const std::string_view name = whole.substr(0, scheme);
  if (!equal_ignoring_case(name, "http") && !equal_ignoring_case(name, "https")) return true;
  const std::string_view rest = whole.substr(scheme + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (!valid_host(authority)) return false;
  for (auto& [field, value] : headers) {
    if (equal_ignoring_case(field, "host")) value = authority;
  }
  std::string path(rest.substr(authority.size()));
  if (!path.starts_with('/')) path.insert(0, "/");
  target = std::move(path);
  return true;
}

struct Framing {
  int hosts = 0;
  int lengths = 0;
  int encodings = 0;
  std::string_view host, length, encoding, expect;
};

Framing framing_of(const Headers& headers) {
  Framing framing;
  for (const auto& [name, value] : headers) {
    if (equal_ignoring_case(name, "host")) {
      ++framing.hosts;
      framing.host = value;
    } else if (equal_ignoring_case(name, "content-length")) {
      ++framing.lengths;
      framing.length = value;
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
      ++framing.encodings;
      framing.encoding = value;
    } else if (equal_ignoring_case(name, "expect")) {
      framing.expect = value;
    }
  }
  return framing;
}

}  // namespace

bool valid_host(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t close = host.find(']');
    if (close == std::string_view::npos || close < 3) return false;
    const std::string_view address = host.substr(1, close - 1);
    if (!std::all_of(address.begin(), address.end(), [](char c) { return is_hex(c) || c == ':' || c == '.'; }) ||
        std::count(address.begin(), address.end(), ':') < 2) {
      return false;
    }
    host.remove_prefix(close + 1);
    return host.empty() || (host.starts_with(':') && valid_port(host.substr(1)));
  }
  const std::size_t colon = host.find(':');
  if (colon == std::string_view::npos) return valid_name(host);
  return valid_name(host.substr(0, colon)) && valid_port(host.substr(colon + 1));
}

struct RequestReader::State {
  explicit State(const ReaderLimits& limits) : reader(limits) {}

  /// What Beast lets pass and we do not; 0 when the head is good.
  ReaderFailure check_head() {
    auto& message = reader.message();
    // An unusable Host stays an error, also where it does not count.
    const Framing as_sent = framing_of(message.headers);
    if (as_sent.hosts == 1 && !valid_host(as_sent.host)) return {400, "the Host header names no host"};
    if (!to_origin_form(message.target, message.headers)) return {400, "the request target names no host"};
    if (!valid_target(message.method, message.target)) return {400, "the request target must be a path"};
    const Framing framing = framing_of(message.headers);
    if (framing.encodings > 0 && framing.lengths > 0) {
      return {400, "a request must not have both Content-Length and Transfer-Encoding"};
    }
    if (framing.lengths > 1) return {400, "a request must not repeat Content-Length"};
    if (framing.lengths == 1 && !all_digits(framing.length)) return {400, "Content-Length must be a number"};
    if (framing.encodings > 1) return {400, "a request must not repeat Transfer-Encoding"};
    if (framing.encodings == 1) {
      if (message.version < 11) return {400, "HTTP/1.0 has no Transfer-Encoding"};
      if (!equal_ignoring_case(framing.encoding, "chunked")) return {501, "the only Transfer-Encoding is chunked"};
    }
    if (framing.hosts > 1 || (framing.hosts == 0 && message.version >= 11)) {
      return {400, "a request needs exactly one Host"};
    }
    if (!framing.expect.empty() && message.version >= 11) {
      if (!equal_ignoring_case(framing.expect, "100-continue")) return {417, "the only Expect is 100-continue"};
      expects_continue = true;
    }
    return {};
  }

  void fill_head() {
    auto& message = reader.message();
    head.method = std::move(message.method);
    head.target = std::move(message.target);
    const std::size_t mark = head.target.find('?');
    head.path = head.target.substr(0, mark);
    if (mark != std::string::npos) head.query = head.target.substr(mark + 1);
    head.headers = std::move(message.headers);
    head.has_body = !message.is_done();
  }

  MessageReader<true> reader;
  RequestHead head;
  bool expects_continue = false;
};

RequestReader::RequestReader(const ReaderLimits& limits) : state_(std::make_unique<State>(limits)) {}
RequestReader::~RequestReader() = default;

ReaderStep RequestReader::feed(std::string_view& bytes) {
  const ReaderStep step = feed_one(bytes);
  if (step == ReaderStep::kFailed && state_->head.target.empty()) state_->fill_head();
  return step;
}

ReaderStep RequestReader::feed_one(std::string_view& bytes) {
  auto& reader = state_->reader;
  const ReaderStep step = reader.feed(bytes);
  if (step == ReaderStep::kFailed && reader.failure().status == 505 && !ends_in_version(reader.first_line())) {
    return reader.fail(400, "malformed request line");
  }
  if (step != ReaderStep::kHead) return step;
  if (const ReaderFailure failure = state_->check_head(); failure.status != 0) {
    return reader.fail(failure.status, failure.reason);
  }
  state_->fill_head();
  return step;
}

bool RequestReader::started() const { return state_->reader.started(); }
RequestHead& RequestReader::head() { return state_->head; }
std::string_view RequestReader::piece() const { return state_->reader.piece(); }
const ReaderFailure& RequestReader::failure() const { return state_->reader.failure(); }
bool RequestReader::http_1_1() const { return state_->reader.message().version >= 11; }
bool RequestReader::keep_alive() const { return state_->reader.message().keep_alive(); }
bool RequestReader::expects_continue() const { return state_->expects_continue; }
std::optional<std::uint64_t> RequestReader::content_length() const {
  const auto length = state_->reader.message().content_length();
  if (!length) return std::nullopt;
  return *length;
}

}  // namespace kvern::net
