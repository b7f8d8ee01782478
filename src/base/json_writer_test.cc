#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/rng.h"

namespace kvern::json {
namespace {

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  std::string out;
  Writer writer(out);
  writer.begin_object().member("a", 1).key("b").begin_array().value("x").null().value(true).begin_object().end_object();
  writer.end_array().member("c", std::string("y")).key("d").raw("[1]").end_object();
  EXPECT_EQ(out, R"({"a":1,"b":["x",null,true,{}],"c":"y","d":[1]})");
}

TEST(JsonWriter, EveryTextComesBack) {
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint64_t n = rng.below(40); n > 0; --n) {
      const std::uint64_t kind = rng.below(4);
      if (kind == 0) text += static_cast<char>(rng.below(0x20));
      if (kind == 1) text += "\"\\/\x7F"[rng.below(4)];
      if (kind == 2) text += "é😀";
      if (kind == 3) text += static_cast<char>('a' + rng.below(26));
    }
    std::string out;
    append_quoted(out, text);
    EXPECT_EQ(boost::json::value_to<std::string>(boost::json::parse(out)), text);
    const auto document = Document::parse(out, {});
    ASSERT_TRUE(document.ok());
    EXPECT_EQ((*document)->root().string(), text);
  }
}

}  // namespace
}  // namespace kvern::json
