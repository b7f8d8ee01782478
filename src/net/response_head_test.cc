#include "net/response_head.h"

#include <gtest/gtest.h>

namespace kvern::net {
namespace {

std::string head(const ResponseHead& response, const Headers& headers = {}) {
  std::string out;
  append_head(out, response, headers, "NOW");
  return out;
}

TEST(ResponseHead, FramesByLengthOrChunks) {
  EXPECT_EQ(head({200, true, true, 5}), "HTTP/1.1 200 OK\r\ndate: NOW\r\ncontent-length: 5\r\n\r\n");
  EXPECT_EQ(head({200, true, false, std::nullopt}),
            "HTTP/1.1 200 OK\r\ndate: NOW\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
  EXPECT_EQ(head({200, false, true, 0}),
            "HTTP/1.1 200 OK\r\ndate: NOW\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n");
  EXPECT_EQ(head({204, true, true, 0}), "HTTP/1.1 204 No Content\r\ndate: NOW\r\n\r\n");
}

TEST(ResponseHead, KeepsItsOwnFieldsAndCleansOthers) {
  EXPECT_EQ(head({404, true, true, 0}, {{"Content-Length", "9"}, {"Connection", "upgrade"}, {"a", "b\r\nc: d"}}),
            "HTTP/1.1 404 Not Found\r\ndate: NOW\r\na: b  c: d\r\ncontent-length: 0\r\n\r\n");
}

TEST(ResponseHead, WritesDates) {
  EXPECT_EQ(http_date(std::chrono::seconds(784'111'777)), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace kvern::net
