#include "base/log.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(LogLine, PlainValuesStayPlain) {
  EXPECT_EQ(format_log_line("request", {{"id", RequestId{0xab}}, {"status", 200}, {"path", "/v1/models"}}),
            "request id=req_00000000000000ab status=200 path=/v1/models");
}

TEST(LogLine, NoValueCanForgeALineOrAField) {
  EXPECT_EQ(format_log_line("x", {{"k", "a\nb c=d\"\\"}}), R"(x k="a?b c=d\"\\")");
  EXPECT_EQ(format_log_line("x", {{"k", ""}}), R"(x k="")");
  EXPECT_EQ(format_log_line("x", {{"k",
                                   "a\x1b[2J\xc2\x9b"
                                   "1m\xff\u202e\u00e9"}}),
            "x k=a?[2J?1m??\u00e9");
}

TEST(LogLine, LongValuesAreCut) {
  const std::string line = format_log_line("x", {{"k", std::string(100000, 'a')}});
  EXPECT_LT(line.size(), 300U);
}

TEST(LogLevel, NamesParse) {
  EXPECT_EQ(*parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_FALSE(parse_log_level("loud").ok());
}

}  // namespace
}  // namespace kvern
