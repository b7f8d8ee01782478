#include "app/event_log.h"

#include <gtest/gtest.h>

namespace kvern::app {
namespace {

TEST(EventLog, ReadsFromAnyNumberOn) {
  EventLog log(1000);
  log.append("event: a\ndata: 0\n\nevent: b\ndata: 1\n\n");
  log.append("event: c\ndata: 2\n\n");
  for (const auto& [from, expected] : {std::pair(0, "0 1 2 "), {1, "1 2 "}, {2, "2 "}, {3, ""}, {9, ""}}) {
    std::string out;
    const auto next = log.read(static_cast<std::uint64_t>(from), out);
    EXPECT_EQ(next, from == 9 ? 9U : 3U);
    std::string seen;
    for (std::size_t at = 0; (at = out.find("data: ", at)) != std::string::npos; at += 6)
      seen += out.substr(at + 6, 1) + " ";
    EXPECT_EQ(seen, expected) << from;
  }
}

TEST(EventLog, ReadsInPieces) {
  EventLog log(1000);
  log.append("a\n\nbb\n\nccc\n\n");
  std::string out;
  EXPECT_EQ(log.read(0, out, 4), 2U) << "as long as there is room before an event";
  EXPECT_EQ(out, "a\n\nbb\n\n");
  EXPECT_EQ(log.read(2, out, out.size()), 2U);
  EXPECT_EQ(log.read(2, out, out.size() + 1), 3U);
}

TEST(EventLog, KeepsTheNewestWithinItsBound) {
  EventLog log(30);
  for (int i = 0; i < 10; ++i) log.append("data: " + std::to_string(i) + "\n\n");  // 9 bytes each
  EXPECT_EQ(log.first(), 7U);
  EXPECT_EQ(log.next(), 10U);
  std::string out;
  log.read(0, out);
  EXPECT_EQ(out, "data: 7\n\ndata: 8\n\ndata: 9\n\n");
  log.append("data: " + std::string(100, 'x') + "\n\n");
  EXPECT_EQ(log.first(), 10U) << "the last one is kept whatever its size";
}

}  // namespace
}  // namespace kvern::app
