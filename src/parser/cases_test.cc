// Every case of cases/*.jsonl, whole, as its chunks, byte by byte, at every two-way split and at 200 random splits: all
// must give the same pieces, and those must be what the case expects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "base/testing/source_path.h"
#include "ir/event_grammar.h"
#include "parser/hermes.h"
#include "parser/split_check.h"

namespace kvern::parser {
namespace {

namespace bj = boost::json;

struct Case {
  bj::object data;
  std::string joined;
  std::vector<std::string> chunks;
  std::string text(const char* key) const { return bj::value_to<std::string>(data.at(key)); }
  const bj::object& expected() const { return data.at("expect").as_object(); }
  bool exact() const { return data.contains("exact") && data.at("exact").as_bool(); }
  bool complete() const { return text("finish_reason_in") != "length"; }
};

std::vector<Case> load_cases() {
  std::vector<Case> out;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("parser/cases"))) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      Case one;
      one.data = bj::parse(line).as_object();
      for (const auto& chunk : one.data.at("chunks").as_array()) {
        one.chunks.push_back(bj::value_to<std::string>(chunk));
        one.joined += one.chunks.back();
      }
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::unique_ptr<Parser> parser_for(const Case& one) {
  HermesOptions options;
  options.starts_in_reasoning = one.text("start") == "reasoning";
  options.parse_calls = !one.data.at("tools").as_array().empty();
  return make_hermes_parser(options);
}

std::string normal(const std::string& text, bool exact) {
  if (exact) return text;
  std::string out;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string expected_text(const Case& one, const char* key) {
  const bj::value& value = one.expected().at(key);
  return value.is_null() ? "" : normal(bj::value_to<std::string>(value), one.exact());
}

void check(const Case& one, const std::vector<Piece>& pieces) {
  const Answer answer = fold(pieces);
  EXPECT_EQ(normal(answer.text, one.exact()), expected_text(one, "content"));
  EXPECT_EQ(normal(answer.thinking, one.exact()), expected_text(one, "reasoning"));
  bj::array wanted = one.expected().at("tool_calls").as_array();
  const bj::array cut =
      one.expected().contains("incomplete") ? one.expected().at("incomplete").as_array() : bj::array{};
  ASSERT_EQ(answer.calls.size(), wanted.size() + cut.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bj::object& call = wanted[i].as_object();
    EXPECT_EQ(answer.calls[i].name, bj::value_to<std::string>(call.at("name")));
    if (call.contains("arguments_text")) {
      EXPECT_EQ(answer.calls[i].arguments, bj::value_to<std::string>(call.at("arguments_text")));
    } else {
      boost::system::error_code error;
      const bj::value got = bj::parse(answer.calls[i].arguments, error);
      ASSERT_FALSE(error) << answer.calls[i].arguments;
      EXPECT_EQ(got, call.at("arguments")) << answer.calls[i].arguments;
    }
  }
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const auto& call = answer.calls[wanted.size() + i];
    EXPECT_EQ(call.name, bj::value_to<std::string>(cut[i].as_object().at("name")));
    EXPECT_EQ(call.arguments, bj::value_to<std::string>(cut[i].as_object().at("arguments_prefix")));
  }
  std::string reason = one.text("finish_reason_in");
  if (reason == "stop" && !answer.calls.empty()) reason = "tool_calls";
  EXPECT_EQ(reason, bj::value_to<std::string>(one.expected().at("finish_reason")));
}

TEST(HermesCases, HoldForEverySplit) {
  const auto cases = load_cases();
  ASSERT_GE(cases.size(), 40U);
  Rng rng(7);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text("id"));
    const auto whole = run(*parser_for(one), {one.joined}, one.complete());
    check(one, whole);
    EXPECT_EQ(run(*parser_for(one), one.chunks, one.complete()), whole) << "as given";
    std::vector<std::string> bytes;
    for (const char c : one.joined) bytes.emplace_back(1, c);
    EXPECT_EQ(run(*parser_for(one), bytes, one.complete()), whole) << "byte by byte";
    for (std::size_t at = 1; at < one.joined.size(); ++at) {
      EXPECT_EQ(run(*parser_for(one), {one.joined.substr(0, at), one.joined.substr(at)}, one.complete()), whole)
          << "split at " << at;
    }
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(run(*parser_for(one), random_split(one.joined, rng), one.complete()), whole) << "random split " << i;
    }
  }
}

TEST(HermesCases, EveryPrefixKeepsTheGrammar) {
  for (const Case& one : load_cases()) {
    SCOPED_TRACE(one.text("id"));
    for (std::size_t length = 0; length <= one.joined.size(); ++length) {
      for (const bool complete : {false, true}) {
        const auto pieces = run(*parser_for(one), {one.joined.substr(0, length)}, complete);
        EXPECT_EQ(grammar_fault(pieces), "") << "prefix of " << length;
      }
    }
  }
}

}  // namespace
}  // namespace kvern::parser
