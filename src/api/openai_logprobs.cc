#include "api/openai_logprobs.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// OpenAI's smallest: JSON has no infinity.
constexpr float kLeast = -9999.0F;

void append_logprob(float value, std::string& out) {
  const float shown = value > kLeast ? std::min(value, 0.0F) : kLeast;  // NaN as well; + 0.0F makes -0 a 0
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), shown + 0.0F).ptr;
  out.append(digits.data(), end);
}

/// Bytes of the character at the start of `text`; 0 where there is none.
std::size_t character_at(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(text.size(), 4); ++bytes) {
    if (simdjson::validate_utf8(text.substr(0, bytes))) return bytes;
  }
  return 0;
}

/// An entry but for its closing brace.
void append_entry(std::string_view bytes, float logprob, std::string& out) {
  out += R"({"token":)";
  append_token_text(bytes, out);
  out += R"(,"logprob":)";
  append_logprob(logprob, out);
  out += R"(,"bytes":[)";
  bool first = true;
  for (const char c : bytes) {
    if (!first) out += ',';
    first = false;
    json::append_number(out, static_cast<unsigned char>(c));
  }
  out += ']';
}

void comma(std::string& list) {
  if (!list.empty()) list += ',';
}

/// The likeliest as {token: log probability}, and the chosen one if it is not among them. A text that two tokens share
/// stands once, with the likelier.
void append_top(const ir::TokenLogprob& token, std::string& out) {
  std::vector<std::string_view> seen;
  const auto add = [&](std::string_view bytes, float logprob) {
    if (std::find(seen.begin(), seen.end(), bytes) != seen.end()) return;
    out += seen.empty() ? "" : ",";
    seen.push_back(bytes);
    append_token_text(bytes, out);
    out += ':';
    append_logprob(logprob, out);
  };
  out += '{';
  for (const auto& other : token.top) add(other.bytes, other.logprob);
  add(token.bytes, token.logprob);
  out += '}';
}

}  // namespace

void append_token_text(std::string_view bytes, std::string& out) {
  if (simdjson::validate_utf8(bytes)) return json::append_quoted(out, bytes);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  out += '"';
  while (!bytes.empty()) {
    const std::size_t whole = character_at(bytes);
    if (whole > 0) {
      json::append_escaped(out, bytes.substr(0, whole));
    } else {
      const auto byte = static_cast<unsigned char>(bytes[0]);
      out += R"(\\x)";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
    }
    bytes.remove_prefix(std::max<std::size_t>(whole, 1));
  }
  out += '"';
}

void append_chat_logprobs(std::span<const ir::TokenLogprob> tokens, std::string& out) {
  for (const auto& token : tokens) {
    if (out.ends_with('}')) out += ',';
    append_entry(token.bytes, token.logprob, out);
    out += R"(,"top_logprobs":[)";
    for (const auto& other : token.top) {
      if (out.ends_with('}')) out += ',';
      append_entry(other.bytes, other.logprob, out);
      out += '}';
    }
    out += "]}";
  }
}

void CompletionLogprobs::add(std::span<const ir::TokenLogprob> tokens) {
  for (const auto& token : tokens) {
    for (std::string* list : {&offsets_, &logprobs_, &tokens_, &top_}) comma(*list);
    json::append_number(offsets_, static_cast<std::int64_t>(characters_));
    append_logprob(token.logprob, logprobs_);
    append_token_text(token.bytes, tokens_);
    append_top(token, top_);
    // Bytes that begin a character: halves of one count once together.
    characters_ += static_cast<std::uint64_t>(
        std::ranges::count_if(token.bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  }
}

void CompletionLogprobs::take(std::string& out) {
  out += R"({"text_offset":[)";
  out += offsets_;
  out += R"(],"token_logprobs":[)";
  out += logprobs_;
  out += R"(],"tokens":[)";
  out += tokens_;
  out += R"(],"top_logprobs":[)";
  out += top_;
  out += "]}";
  for (std::string* list : {&offsets_, &logprobs_, &tokens_, &top_}) list->clear();
}

}  // namespace kvern::api
