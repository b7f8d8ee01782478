#include "api/custom_input.h"

#include <gtest/gtest.h>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

std::string in_pieces(std::string_view text, std::size_t size) {
  CustomInput input;
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += size) input.add(text.substr(i, size), out);
  input.finish(out);
  return out;
}

TEST(CustomInput, GivesTheStringHoweverItIsCut) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"input": "ls -l"})", "ls -l"},
      {R"( { "input" : "a" , "more": 1 } )", "a"},
      {R"({"input":""})", ""},
      {R"("bare")", "bare"},
      {R"({"input":"\"\\\/\n\t\r\b\f"})", "\"\\/\n\t\r\b\f"},
      {R"({"input":"\u00e9\u20AC\ud83d\ude00"})", "é€😀"},
      {R"({"input":"\ud83dx\ude00"})", "\xEF\xBF\xBDx\xEF\xBF\xBD"},
      {R"({"input":"\ud83d\n"})", "\xEF\xBF\xBD\n"},
      {R"({"input":"\ud83d"})", "\xEF\xBF\xBD"},
      {R"({"input":"\d+ \u12x"})", "\\d+ \xEF\xBF\xBDx"},
      {R"({"input":"héllo 😀"})", "héllo 😀"},
      {R"({"input":"cut)", "cut"},
      {R"({"input":"cut\)", "cut"},
      {"{}", ""},
      {"", ""},
      {"*** Begin Patch\n", "*** Begin Patch\n"},
      {R"({"patch":"x"})", R"({"patch":"x"})"},
      {R"({"inputs":"x"})", R"({"inputs":"x"})"},
      {R"({"input":5})", R"({"input":5})"},
      {R"({"inp)", R"({"inp)"},
      {"[1]", "[1]"},
  };
  for (const auto& [text, wanted] : cases) {
    for (std::size_t size = 1; size <= text.size() + 1; ++size) EXPECT_EQ(in_pieces(text, size), wanted) << text;
  }
}

TEST(CustomInput, UndoesTheWriter) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  std::string json = "{\"input\": ";
  json::append_quoted(json, text);
  EXPECT_EQ(in_pieces(json + "}", 3), text);
}

}  // namespace
}  // namespace kvern::api
