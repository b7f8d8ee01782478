#include "prompt/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvern::prompt {
namespace {

/// Token i is the byte i; 256 is special.
class Bytes final : public Tokenizer {
 public:
  Tokens encode(std::span<const Span>, std::string_view) const override { return {}; }
  Tokens encode_text(std::string_view, bool, std::string_view) const override { return {}; }
  std::string piece(TokenId token, bool special) const override {
    if (token == 256) return special ? "<end>" : "";
    return std::string(1, static_cast<char>(token));
  }
  bool is_special(TokenId token) const override { return token == 256; }
  bool is_end(TokenId token) const override { return token == 256; }
  std::uint32_t size() const override { return 257; }
};

const std::string kReplacement = "\xEF\xBF\xBD";

std::string in_two(const std::string& bytes, std::size_t at) {
  const Bytes tokenizer;
  Detokenizer detokenizer(tokenizer, true);
  std::string out;
  detokenizer.add_bytes(std::string_view(bytes).substr(0, at), out);
  detokenizer.add_bytes(std::string_view(bytes).substr(at), out);
  detokenizer.finish(out);
  return out;
}

std::string byte_by_byte(const std::string& bytes) {
  const Bytes tokenizer;
  Detokenizer detokenizer(tokenizer, true);
  std::string out;
  for (const char c : bytes) detokenizer.add(static_cast<unsigned char>(c), out);
  detokenizer.finish(out);
  return out;
}

TEST(Detokenizer, EverySplitGivesTheSameText) {
  const std::string text = "a\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80\xF4\x8F\xBF\xBF z";
  for (std::size_t at = 0; at <= text.size(); ++at) EXPECT_EQ(in_two(text, at), text) << at;
  EXPECT_EQ(byte_by_byte(text), text);
}

TEST(Detokenizer, NeverEmitsPartOfACharacter) {
  const Bytes tokenizer;
  Detokenizer detokenizer(tokenizer, true);
  std::string out;
  for (const int byte : {0xF0, 0x9F, 0x98}) {
    detokenizer.add(byte, out);
    EXPECT_EQ(out, "");
  }
  detokenizer.add(0x80, out);
  EXPECT_EQ(out, "\xF0\x9F\x98\x80");
}

TEST(Detokenizer, WhatCannotBecomeACharacterIsReplaced) {
  struct Case {
    std::string bytes;
    std::string text;
  };
  const std::vector<Case> cases = {
      {"\xFF", kReplacement},
      {"\x80"
       "a",
       kReplacement + "a"},
      {"\xC3(", kReplacement + "("},
      {"\xE4\xBD", kReplacement},
      {"\xE4\xBD"
       "a",
       kReplacement + "a"},
      {"\xC0\x80", kReplacement + kReplacement},                     // overlong
      {"\xED\xA0\x80", kReplacement + kReplacement + kReplacement},  // a surrogate
      {"\xF4\x90\x80\x80", kReplacement + kReplacement + kReplacement + kReplacement},
      {"\xF0\x9F\xC3\xA9", kReplacement + "\xC3\xA9"},
  };
  for (const Case& c : cases) {
    for (std::size_t at = 0; at <= c.bytes.size(); ++at) EXPECT_EQ(in_two(c.bytes, at), c.text) << at;
    EXPECT_EQ(byte_by_byte(c.bytes), c.text);
  }
}

TEST(Detokenizer, SpecialTokensShowOnlyWhenAsked) {
  const Bytes tokenizer;
  std::string out;
  Detokenizer hidden(tokenizer, false);
  hidden.add('a', out);
  hidden.add(256, out);
  EXPECT_EQ(out, "a");
  Detokenizer shown(tokenizer, true);
  shown.add(256, out);
  EXPECT_EQ(out, "a<end>");
}

}  // namespace
}  // namespace kvern::prompt
