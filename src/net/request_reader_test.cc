// The request side of the wire without sockets: framing, strictness, bounds, and the same result for every split.
#include "net/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/testing/read_all.h"

namespace kvern::net {
namespace {

using testing::read_requests;
using testing::whole;

ReaderLimits small_limits() {
  ReaderLimits limits;
  limits.header_bytes_max = 400;
  limits.header_fields_max = 8;
  limits.body_bytes_max = 20;
  limits.chunk_line_max = 40;
  limits.trailer_bytes_max = 40;
  return limits;
}

std::string read(std::string_view bytes) { return read_requests(bytes, small_limits(), whole); }
std::string get_with(std::string_view field) {
  return read("GET / HTTP/1.1\r\nHost: a\r\n" + std::string(field) + "\r\n\r\n");
}
std::string get_line(std::string_view line) { return read(std::string(line) + "\r\nHost: a\r\n\r\n"); }
std::string chunked(std::string_view body) {
  return read("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(body));
}

constexpr std::string_view kChunkedHead = "POST / [Host=a] [Transfer-Encoding=chunked]";

TEST(RequestReader, ReadsHeadsAndBodies) {
  EXPECT_EQ(read("GET /a?b=c&d HTTP/1.1\r\nHost: x:80\r\nA:  b c \t\r\nE:\r\n\r\n"),
            "GET /a?b=c&d [Host=x:80] [A=b c] [E=] <> | end");
  EXPECT_EQ(read("POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n"),
            "POST / [Host=a] [content-length=3] <abc> | GET / close <> | end");
  EXPECT_EQ(read("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n"), "GET / [Host=a] <> | end");
  EXPECT_EQ(read("POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\n\r\nab"),
            "POST / [Host=a] [content-length=3]<ab> more");
}

TEST(RequestReader, ReadsChunks) {
  EXPECT_EQ(chunked("5\r\nhello\r\n00006 ; a=\"b\"\r\n world\r\n0\r\n\r\n"),
            std::string(kChunkedHead) + " <hello world> | end");
  EXPECT_EQ(chunked("1\r\na\r\n0;x\r\nHost: evil\r\nB: c\r\n\r\n"), std::string(kChunkedHead) + " <a> | end")
      << "trailers never become headers";
}

TEST(RequestReader, RefusesOddChunks) {
  const auto failed = [](int status) { return std::string(kChunkedHead) + "error " + std::to_string(status); };
  for (const auto* odd : {"-5", "0x5", "+5", "5 5", "FFFFFFFFFFFFFFFFF", "", "g", "5;", "5;a=", "5;a=\"b", " 5"}) {
    EXPECT_EQ(chunked(std::string(odd) + "\r\nhello\r\n0\r\n\r\n"), failed(400)) << odd;
  }
  EXPECT_EQ(chunked("FFFFFFFFFFFFFFFF\r\n"), failed(413));
  EXPECT_EQ(chunked("15\r\n"), failed(413)) << "21 bytes, 20 allowed";
  EXPECT_EQ(chunked("a\r\n0123456789\r\nb\r\n"), failed(413)) << "over the limit with the second chunk";
  EXPECT_EQ(chunked("5;" + std::string(100, 'x')), failed(431));
  EXPECT_EQ(chunked("0;" + std::string(100, 'x')), failed(431));
  EXPECT_EQ(chunked("5\r\nhelloX\r\n"), failed(400));
  EXPECT_EQ(chunked("5\nhello\r\n"), failed(400));
  EXPECT_EQ(chunked("0\r\nA: b\r\n c\r\n\r\n"), failed(400)) << "folded trailer";
  EXPECT_EQ(chunked("0\r\nContent-Length: 3\r\n\r\n"), failed(400));
  EXPECT_EQ(chunked("0\r\nA: " + std::string(100, 'x') + "\r\n\r\n"), failed(431));
}

TEST(RequestReader, RefusesDoubtfulFraming) {
  for (const auto* fields :
       {"Content-Length: 6\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: identity\r\nContent-Length: 6", "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length: +5", "Content-Length: -5",
        "Content-Length: 0x5", "Content-Length: 5 5", "Content-Length:", "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"}) {
    EXPECT_EQ(get_with(fields), "error 400") << fields;
  }
  for (const auto* coding :
       {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", "chunked;a=b", "", ","}) {
    EXPECT_EQ(get_with("Transfer-Encoding: " + std::string(coding)), "error 501") << coding;
  }
  EXPECT_EQ(read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), "error 400");
  EXPECT_EQ(get_with("Content-Length: 21"), "error 413");
}

TEST(RequestReader, RefusesMalformedHeads) {
  for (const auto* field : {"A : b", "A\t: b", " A: b", "A", ": b", "A: b\r\n c", "A: b\r\n\tc", "A: \x01", "A\x80: b",
                            "A: b\nB: c", "A: b\rB: c", "A(: b", "A: \x7F"}) {
    EXPECT_EQ(get_with(field), "error 400") << field;
  }
  EXPECT_EQ(read(std::string_view("GET / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n", 33)), "error 400");
  for (const auto* line : {"GET  / HTTP/1.1",
                           "GET /  HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           "GET / HTTP/1.1 x",
                           " GET / HTTP/1.1",
                           "GET /",
                           "GET",
                           "GET / http/1.1",
                           "GET / HTTP/1",
                           "GET / HTTP/11.1",
                           "GET / HTTQ/1.1",
                           "G@T / HTTP/1.1",
                           "GET http:/a HTTP/1.1",
                           "GET http://u@a/ HTTP/1.1",
                           "GET http:// HTTP/1.1",
                           "GET ftp://a/ HTTP/1.1",
                           "GET http://a/#b HTTP/1.1",
                           "GET a HTTP/1.1",
                           "GET * HTTP/1.1",
                           "CONNECT a:80 HTTP/1.1",
                           "GET /a#b HTTP/1.1",
                           "GET /\x80 HTTP/1.1",
                           "GET /\tx HTTP/1.1"}) {
    EXPECT_EQ(get_line(line), "error 400") << line;
  }
  for (const auto* line : {"GET / HTTP/2.0", "GET / HTTP/1.2", "GET / HTTP/0.9", "PRI * HTTP/2.0"}) {
    EXPECT_EQ(get_line(line), "error 505") << line;
  }
  EXPECT_EQ(read("\x16\x03\x01\x02"), "error 400") << "a TLS hello is refused at once";
  EXPECT_EQ(get_line("OPTIONS * HTTP/1.1"), "OPTIONS * [Host=a] <> | end");
}

TEST(RequestReader, TakesAbsoluteTargetsWithTheHostTheyName) {
  EXPECT_EQ(get_line("GET http://b:80/x?y=1 HTTP/1.1"), "GET /x?y=1 [Host=b:80] <> | end");
  EXPECT_EQ(get_line("GET HTTPS://b HTTP/1.1"), "GET / [Host=b] <> | end");
  EXPECT_EQ(get_line("GET http://b?y HTTP/1.1"), "GET /?y [Host=b] <> | end");
  EXPECT_EQ(read("GET http://b/ HTTP/1.1\r\n\r\n"), "error 400") << "a Host is needed all the same";
  EXPECT_EQ(read("GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n"), "error 400");
}

TEST(RequestReader, WantsOneGoodHost) {
  const auto with_host = [](std::string_view host) {
    return read("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
  };
  for (const auto* host :
       {"a/?x=",   "a:80/?", "a:80/#", "a/v1/models?", "a@b", "a b",  "",      "a:80:90", "a:x",  "a:",      ":80",
        "a:99999", "[::1",   "[]",     "[::1]x",       "[a]", "a\\b", "a,b:c", "a%2",     "a%zz", "\xC3\xA4"}) {
    EXPECT_EQ(with_host(host), "error 400") << host;
  }
  for (const auto* host : {"a", "A-b.c_d", "127.0.0.1:8080", "[::1]", "[::1]:80", "a%20b", "localhost:0"}) {
    EXPECT_TRUE(valid_host(host)) << host;
  }
  EXPECT_EQ(read("GET / HTTP/1.1\r\n\r\n"), "error 400");
  EXPECT_EQ(read("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), "error 400");
  EXPECT_EQ(read("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), "error 400");
}

TEST(RequestReader, BoundsTheHead) {
  EXPECT_EQ(get_with("A: " + std::string(400, 'x')), "error 431");
  EXPECT_EQ(read("GET /" + std::string(400, 'x')), "error 431");
  std::string many;
  for (int i = 0; i < 9; ++i) many += "A: b\r\n";
  EXPECT_EQ(get_with(many.substr(0, many.size() - 2)), "error 431");
}

TEST(RequestReader, KnowsExpect) {
  EXPECT_EQ(get_with("Expect: miracle"), "error 417");
  std::string_view bytes = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n";
  RequestReader reader{ReaderLimits{}};
  ASSERT_EQ(reader.feed(bytes), ReaderStep::kHead);
  EXPECT_TRUE(reader.expects_continue());
  EXPECT_TRUE(reader.head().has_body);
  EXPECT_EQ(reader.content_length(), 1U);
}

TEST(RequestReader, EverySplitGivesTheSame) {
  const std::vector<std::string> streams = {
      "\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\nGET "
      "/",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;" + std::string(60, 'x') + "\r\nabc",
      "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nA: " + std::string(500, 'x'),
      "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /"};
  for (const auto& stream : streams) {
    const std::string expected = read(stream);
    for (std::size_t at = 1; at < stream.size(); ++at) {
      bool first = true;
      const auto once = [&] { return std::exchange(first, false) ? at : std::string_view::npos; };
      EXPECT_EQ(read_requests(stream, small_limits(), once), expected) << stream << " cut at " << at;
    }
    EXPECT_EQ(read_requests(stream, small_limits(), [] { return 1U; }), expected) << stream << " byte by byte";
  }
}

}  // namespace
}  // namespace kvern::net
