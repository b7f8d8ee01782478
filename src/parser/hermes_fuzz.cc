// Any text, any split: the pieces keep the grammar and do not depend on the split.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "parser/hermes.h"
#include "parser/plain.h"
#include "parser/split_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern::parser;
  if (size < 2) return 0;
  const std::uint8_t flags = data[0];
  HermesOptions options;
  options.starts_in_reasoning = (flags & 1U) != 0;
  options.parse_calls = (flags & 2U) == 0;
  const bool complete = (flags & 4U) == 0;
  kvern::Rng rng(data[1]);
  const std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  const auto whole = run(*make_hermes_parser(options), {text}, complete);
  KV_CHECK(grammar_fault(whole).empty());
  KV_CHECK(run(*make_hermes_parser(options), random_split(text, rng), complete) == whole);
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  KV_CHECK(run(*make_hermes_parser(options), bytes, complete) == whole);
  KV_CHECK(grammar_fault(run(*make_plain_parser(), {text}, complete)).empty());
  return 0;
}
