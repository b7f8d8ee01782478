#include "engine/scripted/script.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <limits>

namespace kvern::engine {
namespace {

using simdjson::dom::element;

constexpr std::size_t kLinesMax = 100'000;

Error at_line(std::size_t number, std::string_view what) {
  return invalid("script", fmt::format("script line {}: {}", number, what));
}

Result<std::chrono::milliseconds> milliseconds(element value, std::size_t number, std::string_view key) {
  std::uint64_t count = 0;
  if (value.get(count) != simdjson::SUCCESS || count > 3'600'000) {
    return at_line(number, fmt::format("{} is a number of milliseconds from 0 to 3600000", key));
  }
  return std::chrono::milliseconds(count);
}

Result<Tokens> token_ids(element value, std::size_t number) {
  simdjson::dom::array array;
  Tokens ids;
  if (value.get(array) != simdjson::SUCCESS) return at_line(number, "token_ids is a list of token ids");
  for (const element item : array) {
    std::uint64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id > std::numeric_limits<TokenId>::max()) {
      return at_line(number, "token_ids is a list of token ids");
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Result<std::vector<std::string>> chunks(element value, std::size_t number) {
  simdjson::dom::array array;
  std::vector<std::string> texts;
  if (value.get(array) != simdjson::SUCCESS) return at_line(number, "chunks is a list of strings");
  for (const element item : array) {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) return at_line(number, "chunks is a list of strings");
    texts.emplace_back(text);
  }
  return texts;
}

/// {"logprob": number, "top"?: [[token id, number], ...]}; false where it is something else.
bool read_logprob(element value, TokenLogprob& out) {
  double number = 0;
  if (value["logprob"].get(number) != simdjson::SUCCESS) return false;
  out.logprob = static_cast<float>(number);
  element top;
  if (value["top"].get(top) != simdjson::SUCCESS) return true;
  simdjson::dom::array pairs;
  if (top.get(pairs) != simdjson::SUCCESS) return false;
  for (const element pair : pairs) {
    std::uint64_t id = 0;
    if (pair.at_pointer("/0").get(id) != simdjson::SUCCESS || id > std::numeric_limits<TokenId>::max()) return false;
    if (pair.at_pointer("/1").get(number) != simdjson::SUCCESS) return false;
    out.top.emplace_back(static_cast<TokenId>(id), static_cast<float>(number));
  }
  return true;
}

Result<std::vector<TokenLogprob>> logprobs(element value, std::size_t number) {
  simdjson::dom::array array;
  std::vector<TokenLogprob> out;
  bool good = value.get(array) == simdjson::SUCCESS;
  if (good) {
    for (const element item : array) good = good && read_logprob(item, out.emplace_back());
  }
  if (good) return out;
  return at_line(number, R"(logprobs is a list of {"logprob": number, "top"?: [[token id, number], ...]})");
}

Result<ScriptLine> parse_line(simdjson::dom::parser& parser, std::string_view text, std::size_t number) {
  simdjson::dom::object object;
  if (parser.parse(simdjson::padded_string(text)).get(object) != simdjson::SUCCESS) {
    return at_line(number, "not a JSON object");
  }
  ScriptLine line;
  for (const auto& [key, value] : object) {
    std::string_view string;
    if (key == "match" || key == "text") {
      if (value.get(string) != simdjson::SUCCESS) return at_line(number, fmt::format("{} is a string", key));
      if (key == "match") {
        line.match = string;
      } else {
        line.text = std::string(string);
      }
    } else if (key == "token_ids") {
      auto ids = token_ids(value, number);
      if (!ids) return ids.error();
      line.token_ids = std::move(*ids);
    } else if (key == "chunks") {
      auto texts = chunks(value, number);
      if (!texts) return texts.error();
      line.chunks = std::move(*texts);
    } else if (key == "logprobs") {
      auto entries = logprobs(value, number);
      if (!entries) return entries.error();
      line.logprobs = std::move(*entries);
    } else if (key == "ttft_ms" || key == "itl_ms") {
      auto time = milliseconds(value, number, key);
      if (!time) return time.error();
      (key == "ttft_ms" ? line.ttft : line.itl) = *time;
    } else if (key == "repeat") {
      if (value.get(line.repeat) != simdjson::SUCCESS) return at_line(number, "repeat is true or false");
    } else if (key == "finish") {
      if (value.get(string) != simdjson::SUCCESS) string = {};
      if (string == "stop") {
        line.finish = ScriptFinish::kStop;
      } else if (string == "length") {
        line.finish = ScriptFinish::kLength;
      } else if (string == "error") {
        line.finish = ScriptFinish::kError;
      } else if (string == "die") {
        line.finish = ScriptFinish::kDie;
      } else if (string == "overloaded") {
        line.finish = ScriptFinish::kOverloaded;
      } else {
        return at_line(number, "finish is one of stop, length, error, die, overloaded");
      }
    } else {
      return at_line(number, fmt::format("unknown key `{}`", key));
    }
  }
  const int answers = line.text.has_value() + line.token_ids.has_value() + line.chunks.has_value();
  if (line.finish == ScriptFinish::kOverloaded) {
    if (answers != 0) return at_line(number, "what is overloaded gives no answer");
  } else if (answers != 1) {
    return at_line(number, "one of text, token_ids or chunks gives the answer");
  }
  if (line.chunks && !line.logprobs.empty()) return at_line(number, "chunks are no tokens: they have no logprobs");
  return line;
}

}  // namespace

Result<std::vector<ScriptLine>> parse_script(std::string_view text) {
  std::vector<ScriptLine> lines;
  simdjson::dom::parser parser;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line.front() == '#') continue;
    if (lines.size() == kLinesMax) return at_line(number, fmt::format("more than {} lines", kLinesMax));
    auto parsed = parse_line(parser, line, number);
    if (!parsed) return parsed.error();
    lines.push_back(std::move(*parsed));
  }
  return lines;
}

const ScriptLine* Script::take(std::string_view prompt) {
  const auto matches = [&](const ScriptLine& line) { return prompt.find(line.match) != std::string_view::npos; };
  while (first_unused_ < lines_.size() && (used_[first_unused_] || lines_[first_unused_].repeat)) ++first_unused_;
  for (std::size_t i = first_unused_; i < lines_.size(); ++i) {
    if (!used_[i] && !lines_[i].repeat && matches(lines_[i])) {
      used_[i] = true;
      return &lines_[i];
    }
  }
  for (const auto& line : lines_) {
    if (line.repeat && matches(line)) return &line;
  }
  return nullptr;
}

}  // namespace kvern::engine
