#include "base/json_reader.h"

#include <gtest/gtest.h>

namespace kvern::json {
namespace {

std::string fault_of(std::string_view text, ReadLimits limits = {}) {
  const auto document = Document::parse(text, limits);
  return document ? "" : document.error().message;
}

TEST(JsonReader, ReadsEveryKind) {
  const std::string text =
      R"( {"n":null,"t":true,"f":false,"i":-12,"d":1.5e3,"s":"a\n\"\u00e9\/","a":[1,[],{}],"o":{"k":"v"}} )";
  const auto document = Document::parse(text, {});
  ASSERT_TRUE(document.ok());
  const Value root = (*document)->root();
  ASSERT_TRUE(root.is(Kind::kObject));
  EXPECT_EQ(root.size(), 8U);
  EXPECT_TRUE(root.find("n")->is(Kind::kNull));
  EXPECT_TRUE(root.find("t")->boolean());
  EXPECT_FALSE(root.find("f")->boolean());
  EXPECT_EQ(root.find("i")->integer(), -12);
  EXPECT_EQ(root.find("d")->number(), 1500);
  EXPECT_EQ(root.find("d")->integer(), std::nullopt);
  EXPECT_EQ(root.find("s")->string(), "a\n\"é/");
  EXPECT_EQ(root.find("a")->raw(), "[1,[],{}]");
  EXPECT_EQ(root.find("a")->size(), 3U);
  EXPECT_EQ(root.find("o")->find("k")->string(), "v");
  EXPECT_FALSE(root.find("x").has_value());
  std::string keys;
  for (const auto& [key, value] : root.children()) keys += key;
  EXPECT_EQ(keys, "ntfidsao");
}

TEST(JsonReader, EscapedKeysAreFound) {
  const auto document = Document::parse(R"({"max\u005ftokens":4,"\ud83d\ude00":5})", {});
  ASSERT_TRUE(document.ok());
  EXPECT_EQ((*document)->root().find("max_tokens")->integer(), 4);
  EXPECT_EQ((*document)->root().find("😀")->integer(), 5);
}

TEST(JsonReader, HalfSurrogatesBecomeReplacements) {
  const auto document =
      Document::parse(R"(["\ud83d","\ude00","\ud83d\ud83d\ude00","\ud83dx","\ud83d\n","\ude00\ud83d"])", {});
  ASSERT_TRUE(document.ok());
  std::vector<std::string> got;
  for (const auto& child : (*document)->root().children()) got.push_back(child.value.string());
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(got, (std::vector<std::string>{bad, bad, bad + "😀", bad + "x", bad + "\n", bad + bad}));
}

TEST(JsonReader, NumbersBeyondTheirTypes) {
  const auto document = Document::parse("[1e999,-1e999,1e-999,9223372036854775807,9223372036854775808,-0]", {});
  ASSERT_TRUE(document.ok());
  std::vector<Value> values;
  for (const auto& child : (*document)->root().children()) values.push_back(child.value);
  EXPECT_GT(values[0].number(), 1e308);
  EXPECT_LT(values[1].number(), -1e308);
  EXPECT_EQ(values[2].number(), 0);
  EXPECT_EQ(values[3].integer(), 9223372036854775807);
  EXPECT_EQ(values[4].integer(), std::nullopt);
  EXPECT_EQ(values[5].integer(), 0);
}

TEST(JsonReader, NamesThePlaceOfAFault) {
  EXPECT_EQ(fault_of("{\n  \"é\": tru\n}"),
            "the body is not valid JSON at line 2, column 8: a value should stand here");
  EXPECT_EQ(fault_of("[1 2]"), "the body is not valid JSON at line 1, column 4: a comma or ] should stand here");
  EXPECT_EQ(fault_of("{\"a\" 1}"), "the body is not valid JSON at line 1, column 6: a colon should stand here");
  EXPECT_EQ(fault_of("[\"ab"),
            "the body is not valid JSON at line 1, column 2: the string that begins here does not end");
  EXPECT_EQ(fault_of("\"\xC3\xA9\n\xFF\""), "the body is not valid UTF-8 at line 2, column 1");
}

TEST(JsonReader, DepthAndSizeAreBounded) {
  EXPECT_EQ(fault_of("[[[]]]", {3, 100}), "");
  EXPECT_NE(fault_of("[[[[]]]]", {3, 100}), "");
  EXPECT_EQ(fault_of("[1,2]", {3, 3}), "");
  EXPECT_NE(fault_of("[1,2,3]", {3, 3}), "");
  EXPECT_EQ(fault_of(R"({"a":{"b":0,"c":0},"d":0})", {3, 100, 2}), "");
  EXPECT_NE(fault_of(R"({"a":0,"b":0,"c":0})", {3, 100, 2}), "");
  EXPECT_NE(fault_of(std::string(50'000'000, '[')), "");
}

TEST(JsonReader, NoKeyStandsTwice) {
  EXPECT_NE(fault_of(R"({"a":1,"b":2,"\u0061":3})"), "");
  EXPECT_EQ(fault_of(R"({"a":{"b":1},"b":{"a":1,"b":{}}})"), "");
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(fault_of(many + "\"z\":1}"), "");
  EXPECT_NE(fault_of(many + "\"k4711\":1}").find("`k4711` stands twice"), std::string::npos);
}

TEST(JsonReader, HalfSurrogatesAreMendedInPlace) {
  const std::pair<std::string, std::string> cases[] = {{R"(["\ud83d\ude00"])", R"(["\ud83d\ude00"])"},
                                                       {R"(["\uD83D\uDE00 \ud83d"])", R"(["\uD83D\uDE00 \ufffd"])"},
                                                       {R"(["\ude00\ud83d"])", R"(["\ufffd\ufffd"])"},
                                                       {R"(["\ud83d\ud83d\ude00"])", R"(["\ufffd\ud83d\ude00"])"},
                                                       {R"(["\\ud83d \\\ud83d"])", R"(["\\ud83d \\\ufffd"])"},
                                                       {R"(["\ud83)", R"(["\ud83)"},
                                                       {R"(["\ud83x\uDCff)", R"(["\ud83x\ufffd)"},
                                                       {"\\ud800", "\\ufffd"},
                                                       {"\\", "\\"},
                                                       {"", ""}};
  for (const auto& [text, mended] : cases) {
    std::string out = text;
    mend_half_surrogates(out);
    EXPECT_EQ(out, mended) << text;
  }
}

}  // namespace
}  // namespace kvern::json
