#include "net/response_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/testing/read_all.h"

namespace kvern::net {
namespace {

using testing::read_response;
using testing::whole;

ReaderLimits small_limits() {
  ReaderLimits limits;
  limits.header_bytes_max = 200;
  limits.header_fields_max = 8;
  limits.body_bytes_max = 20;
  return limits;
}

std::string read(std::string_view bytes, bool end = false) { return read_response(bytes, small_limits(), end, whole); }

TEST(ResponseReader, ReadsEachFraming) {
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "200 [Content-Length=3] <abc>");
  EXPECT_EQ(read("HTTP/1.1 200 \r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"),
            "200 [Transfer-Encoding=Chunked] <ab>");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\n\r\nabc", true), "200 <abc> ended");
  EXPECT_EQ(read("HTTP/1.1 204 No Content\r\n\r\n"), "204 <>");
  EXPECT_EQ(read("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "200 [Content-Length=0] <> close");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
            "200 [Connection=close] [Content-Length=0] <> close");
}

TEST(ResponseReader, NoticesSurplusAndBreaks) {
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc"), "200 [Content-Length=1] <a> surplus");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true), "200 [Content-Length=3] <ab> broken");
}

TEST(ResponseReader, PassesOverInterimAnswers) {
  EXPECT_EQ(read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 204 x\r\n\r\n"), "204 <>");
  std::string endless;
  for (int i = 0; i < 20; ++i) endless += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(read(endless), "error 502");
  EXPECT_EQ(read("HTTP/1.1 101 Switching\r\n\r\n"), "error 502");
}

TEST(ResponseReader, RefusesDoubtAndExcess) {
  for (const auto* head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3", "HTTP/1.1 200 OK\r\nContent-Length: x",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 3", "HTTP/1.1 600 OK", "HTTP/1.1 000 OK"}) {
    EXPECT_EQ(read(std::string(head) + "\r\n\r\n").substr(0, 5), "error") << head;
  }
  for (const auto* head :
       {"HTTP/1.1 2x0 OK", "SMTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nA: b\r\n c", "HTTP/1.1 200 OK\nA: b",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked"}) {
    EXPECT_EQ(read(std::string(head) + "\r\n\r\n").substr(0, 5), "error") << head;
  }
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nA: " + std::string(300, 'x')), "error 431");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n"), "error 413");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n"),
            "200 [Transfer-Encoding=chunked]error 413");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\n\r\n" + std::string(21, 'x')), "200error 413");
}

TEST(ResponseReader, EverySplitGivesTheSame) {
  const std::vector<std::string> streams = {
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 200 OK\r\n\r\nto the end",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd"};
  for (const auto& stream : streams) {
    const std::string expected = read(stream, true);
    for (std::size_t at = 1; at < stream.size(); ++at) {
      bool first = true;
      const auto once = [&] { return std::exchange(first, false) ? at : std::string_view::npos; };
      EXPECT_EQ(read_response(stream, small_limits(), true, once), expected) << stream << " cut at " << at;
    }
    EXPECT_EQ(read_response(stream, small_limits(), true, [] { return 1U; }), expected) << stream;
  }
}

}  // namespace
}  // namespace kvern::net
