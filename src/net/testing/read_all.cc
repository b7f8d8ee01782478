#include "net/testing/read_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/check.h"

namespace kvern::net::testing {
namespace {

std::string text_of(const Headers& headers) {
  std::string out;
  for (const auto& [name, value] : headers) out += fmt::format(" [{}={}]", name, value);
  return out;
}

std::string_view next_piece(std::string_view& bytes, const std::function<std::size_t()>& cut) {
  const std::string_view piece = bytes.substr(0, std::max<std::size_t>(cut(), 1));
  bytes.remove_prefix(piece.size());
  return piece;
}

}  // namespace

std::string read_requests(std::string_view bytes, const ReaderLimits& limits, const std::function<std::size_t()>& cut) {
  std::string out;
  std::string body;
  auto reader = std::make_unique<RequestReader>(limits);
  while (!bytes.empty()) {
    std::string piece(next_piece(bytes, cut));  // a copy of its own: a view kept too long shows under ASan
    std::string_view rest = piece;
    for (bool more = false; !more;) {
      switch (reader->feed(rest)) {
        case ReaderStep::kMore:
          KV_CHECK(rest.empty());
          more = true;
          break;
        case ReaderStep::kHead: {
          const RequestHead& head = reader->head();
          KV_CHECK(head.headers.size() <= limits.header_fields_max);
          out += fmt::format("{} {}{}{}", head.method, head.path, head.query.empty() ? "" : "?", head.query);
          out += text_of(head.headers);
          if (!reader->keep_alive()) out += " close";
          break;
        }
        case ReaderStep::kBody:
          body += reader->piece();
          KV_CHECK(body.size() <= limits.body_bytes_max);
          break;
        case ReaderStep::kDone:
          out += fmt::format(" <{}> | ", body);
          body.clear();
          reader = std::make_unique<RequestReader>(limits);
          if (rest.empty()) more = true;
          break;
        case ReaderStep::kFailed: return out + fmt::format("error {}", reader->failure().status);
      }
    }
  }
  return out + (reader->started() ? fmt::format("<{}> more", body) : "end");
}

std::string read_response(std::string_view bytes, const ReaderLimits& limits, bool end,
                          const std::function<std::size_t()>& cut) {
  std::string out;
  std::string body;
  ResponseReader reader(limits, false);
  while (!bytes.empty()) {
    std::string piece(next_piece(bytes, cut));
    std::string_view rest = piece;
    for (bool more = false; !more;) {
      switch (reader.feed(rest)) {
        case ReaderStep::kMore:
          KV_CHECK(rest.empty());
          more = true;
          break;
        case ReaderStep::kHead: out += fmt::format("{}{}", reader.head().status, text_of(reader.head().headers)); break;
        case ReaderStep::kBody:
          body += reader.piece();
          KV_CHECK(body.size() <= limits.body_bytes_max);
          break;
        case ReaderStep::kDone:
          return out + fmt::format(" <{}>{}{}", body, reader.keep_alive() ? "" : " close",
                                   rest.empty() && bytes.empty() ? "" : " surplus");
        case ReaderStep::kFailed: return out + fmt::format("error {}", reader.failure().status);
      }
    }
  }
  if (end) return out + fmt::format(" <{}>{}", body, reader.end_of_stream() ? " ended" : " broken");
  return out + fmt::format(" <{}> more", body);
}

}  // namespace kvern::net::testing
