#include "net/line_scanner.h"

#include <gtest/gtest.h>

namespace kvern::net {
namespace {

struct Seen {
  ScanVerdict verdict;
  std::size_t used;
  bool operator==(const Seen&) const = default;
};

Seen head(std::string_view bytes, bool trailers = false) {
  HeadScanner scanner(trailers);
  Seen seen{};
  seen.verdict = scanner.scan(bytes, seen.used);
  return seen;
}

Seen chunk(std::string_view bytes, bool first = true) {
  ChunkLineScanner scanner(first);
  Seen seen{};
  seen.verdict = scanner.scan(bytes, seen.used);
  return seen;
}

TEST(HeadScanner, FindsTheEmptyLine) {
  EXPECT_EQ(head("a: b\r\nc\r\n\r\nrest"), (Seen{ScanVerdict::kEnd, 11}));
  EXPECT_EQ(head("\r\n\r\na\r\n\r\nrest"), (Seen{ScanVerdict::kEnd, 9}));
  EXPECT_EQ(head("a\r\n").verdict, ScanVerdict::kMore);
  EXPECT_EQ(head("\r\n", true), (Seen{ScanVerdict::kEnd, 2}));
}

TEST(HeadScanner, RefusesWhatParsersDisagreeOn) {
  EXPECT_EQ(head("a\nb"), (Seen{ScanVerdict::kBad, 2}));
  EXPECT_EQ(head("a\rb"), (Seen{ScanVerdict::kBad, 3}));
  EXPECT_EQ(head("a\r\n folded"), (Seen{ScanVerdict::kBad, 4}));
  EXPECT_EQ(head("a\r\n\tfolded"), (Seen{ScanVerdict::kBad, 4}));
  EXPECT_EQ(head(std::string_view("a\0", 2)), (Seen{ScanVerdict::kBad, 2}));
  EXPECT_EQ(head("a\x7F"), (Seen{ScanVerdict::kBad, 2}));
  EXPECT_EQ(head("\n"), (Seen{ScanVerdict::kBad, 1}));
  EXPECT_EQ(head("a\r\n\r\r\n").verdict, ScanVerdict::kBad);
}

TEST(ChunkLineScanner, TakesHexAndExtensions) {
  EXPECT_EQ(chunk("5\r\nhello"), (Seen{ScanVerdict::kEnd, 3}));
  EXPECT_EQ(chunk("\r\nfF;a=b\r\n", false), (Seen{ScanVerdict::kEnd, 10}));
  EXPECT_EQ(chunk("5").verdict, ScanVerdict::kMore);
  ChunkLineScanner last(true);
  std::size_t used = 0;
  EXPECT_EQ(last.scan("000\r\n", used), ScanVerdict::kEnd);
  EXPECT_TRUE(last.last());
}

TEST(ChunkLineScanner, RefusesOddSizes) {
  for (const auto* odd : {"-5\r\n", "+5\r\n", "0x5\r\n", "\r\n", "g\r\n", "5\n", "5\rx", ";a\r\n", " 5\r\n"}) {
    EXPECT_EQ(chunk(odd).verdict, ScanVerdict::kBad) << odd;
  }
  EXPECT_EQ(chunk("5\r\n", false).verdict, ScanVerdict::kBad) << "no CRLF after the chunk before";
}

}  // namespace
}  // namespace kvern::net
