#include "net/response_head.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <iterator>

namespace kvern::net {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Overloaded";
    default: return "Status";
  }
}

bool is_servers_own(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOwn{"content-length", "transfer-encoding", "connection", "keep-alive",
                                                 "date"};
  for (const auto own : kOwn) {
    if (equal_ignoring_case(name, own)) return true;
  }
  return false;
}

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte == 0x7F ? ' ' : c);
  }
}

}  // namespace

bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

void append_head(std::string& out, const ResponseHead& head, const Headers& headers, std::string_view date) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\ndate: {}\r\n", head.status, reason_of(head.status), date);
  for (const auto& [name, value] : headers) {
    if (is_servers_own(name)) continue;
    append_clean(out, name);
    out.append(": ");
    append_clean(out, value);
    out.append("\r\n");
  }
  if (status_has_body(head.status)) {
    if (head.length) {
      fmt::format_to(std::back_inserter(out), "content-length: {}\r\n", *head.length);
    } else if (head.http_1_1) {
      out.append("transfer-encoding: chunked\r\n");
    }
  }
  if (!head.keep_alive) {
    out.append("connection: close\r\n");
  } else if (!head.http_1_1) {
    out.append("connection: keep-alive\r\n");
  }
  out.append("\r\n");
}

std::string http_date(std::chrono::seconds unix_time) {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = unix_time.count();
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays.at(static_cast<std::size_t>(utc.tm_wday)),
                     utc.tm_mday, kMonths.at(static_cast<std::size_t>(utc.tm_mon)), utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

}  // namespace kvern::net
