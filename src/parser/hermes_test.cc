// What the case table cannot say: when pieces leave, and what they cost.
#include "parser/hermes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "parser/call_envelope.h"
#include "parser/plain.h"
#include "parser/split_check.h"

namespace kvern::parser {
namespace {

std::string text_of(const std::vector<Piece>& pieces) {
  std::string out;
  for (const Piece& piece : pieces) out += piece.text;
  return out;
}

TEST(Hermes, TextLeavesAtOnce) {
  const auto parser = make_hermes_parser({});
  std::vector<Piece> out;
  parser->add("Hel", out);
  EXPECT_EQ(text_of(out), "Hel");
  parser->add("lo <", out);
  EXPECT_EQ(text_of(out), "Hello");  // the space and the bracket may yet be framing
  parser->add("b", out);
  EXPECT_EQ(text_of(out), "Hello <b");
}

TEST(Hermes, ArgumentsLeaveAsTheyArrive) {
  const auto parser = make_hermes_parser({});
  std::vector<Piece> out;
  parser->add("<tool_call>{\"name\": \"wri", out);
  EXPECT_TRUE(out.empty());
  parser->add("te\", \"arguments\": {\"pa", out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].name, "write");
  EXPECT_EQ(out[1].text, "{\"pa");
  parser->add("th\": \"a</tool_", out);
  EXPECT_EQ(text_of(out), "{\"path\": \"a</tool_");
  parser->add("call>\"}}", out);
  EXPECT_EQ(out.back().step, Piece::Step::kStop);
  EXPECT_EQ(text_of(out), "{\"path\": \"a</tool_call>\"}");
}

TEST(Hermes, WhatComesBeforeTheNameIsBounded) {
  const std::string text = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(CallEnvelope::kHeldMost, 'x');
  const auto pieces = run(*make_hermes_parser({}), {text + "\"}, \"name\": \"f\"}</tool_call>"}, true);
  const Answer answer = fold(pieces);
  EXPECT_TRUE(answer.calls.empty());
  EXPECT_TRUE(answer.text.starts_with("{\"arguments\": {\"a\": \"xxx"));
  EXPECT_TRUE(answer.text.ends_with("\"f\"}"));
}

TEST(Hermes, PlainParserPassesEverything) {
  const auto pieces = run(*make_plain_parser(), {"<think>", "a</think><tool_call>{}"}, true);
  EXPECT_EQ(grammar_fault(pieces), "");
  EXPECT_EQ(fold(pieces).text, "<think>a</think><tool_call>{}");
}

/// For the record, not a check: a megabyte of a call's arguments, eight bytes at a time.
TEST(Hermes, PrintsItsSpeed) {
  std::string text = "<think>\nplan\n</think>\n\n<tool_call>\n{\"name\": \"write\", \"arguments\": {\"body\": \"";
  for (int i = 0; i < 20'000; ++i) text += "int main() { return a < b; }\\n a \\\"q\\\" line of code\\n";
  text += "\"}}\n</tool_call>";
  const auto parser = make_hermes_parser({});
  std::vector<Piece> out;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at < text.size(); at += 8) {
    out.clear();
    parser->add(std::string_view(text).substr(at, 8), out);
  }
  parser->finish(true, out);
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  std::cout << ns / static_cast<double>(text.size()) << " ns a byte, " << ns * 8 / static_cast<double>(text.size())
            << " ns an add of 8 bytes\n";
}

}  // namespace
}  // namespace kvern::parser
