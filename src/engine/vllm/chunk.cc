#include "engine/vllm/chunk.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/vllm/json_cursor.h"

namespace kvern::engine {
namespace {

constexpr std::size_t kErrorTypeMax = 64;
/// JSON has no infinity: where vLLM would need it, it writes this or null.
constexpr float kImpossible = -9999.0F;
/// With `return_tokens_as_token_ids` tokens are named so.
constexpr std::string_view kTokenName = "token_id:";

bool read_count(JsonCursor& json, std::uint32_t& out) {
  std::int64_t value = 0;
  if (!json.integer(value) || value < 0 || value > std::numeric_limits<std::uint32_t>::max()) return false;
  out = static_cast<std::uint32_t>(value);
  return true;
}

bool read_token(JsonCursor& json, TokenId& out) {
  std::int64_t value = 0;
  if (!json.integer(value) || value < 0 || value > std::numeric_limits<TokenId>::max()) return false;
  out = static_cast<TokenId>(value);
  return true;
}

bool read_token_ids(JsonCursor& json, Chunk& chunk) {
  if (json.take_null()) return true;
  chunk.has_token_ids = true;
  return json.array([&] {
    TokenId token = 0;
    if (!read_token(json, token)) return false;
    chunk.tokens.push_back(token);
    return true;
  });
}

bool read_logprob(JsonCursor& json, float& out) {
  if (json.take_null()) {
    out = kImpossible;
    return true;
  }
  double value = 0;
  if (!json.number(value)) return false;
  out = static_cast<float>(value);
  return true;
}

bool parse_token_name(std::string_view name, TokenId& out) {
  if (!name.starts_with(kTokenName)) return false;
  name.remove_prefix(kTokenName.size());
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), out);
  return fault == std::errc{} && end == name.data() + name.size() && out >= 0;
}

bool read_top(JsonCursor& json, TokenLogprob& out) {
  if (json.take_null()) return true;
  const bool read = json.object([&](std::string_view name) {
    std::pair<TokenId, float> entry;
    if (!parse_token_name(name, entry.first) || !read_logprob(json, entry.second)) return false;
    out.top.push_back(entry);
    return true;
  });
  std::ranges::sort(out.top, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return read;
}

bool read_logprobs(JsonCursor& json, Chunk& chunk) {
  if (json.take_null()) return true;
  std::size_t tops = 0;
  const auto at = [&chunk](std::size_t index) -> TokenLogprob& {
    if (index >= chunk.logprobs.size()) chunk.logprobs.resize(index + 1);
    return chunk.logprobs[index];
  };
  return json.object([&](std::string_view key) {
    if (key == "token_logprobs") {
      std::size_t count = 0;
      return json.take_null() || json.array([&] { return read_logprob(json, at(count++).logprob); });
    }
    if (key == "top_logprobs") return json.take_null() || json.array([&] { return read_top(json, at(tops++)); });
    return json.skip();
  });
}

bool read_finish(JsonCursor& json, Chunk& chunk) {
  if (json.take_null()) return true;
  std::string_view reason;
  if (!json.string(reason)) return false;
  chunk.finish = reason == "stop"     ? Chunk::Finish::kStop
                 : reason == "length" ? Chunk::Finish::kLength
                                      : Chunk::Finish::kOther;
  return true;
}

/// null, a stop string, or the token that stopped it.
bool read_stop_reason(JsonCursor& json, Chunk& chunk) {
  if (json.next_is('"') || json.next_is('n')) return json.skip();
  TokenId token = 0;
  if (!read_token(json, token)) return false;
  chunk.stop_token = token;
  return true;
}

bool read_choice(JsonCursor& json, Chunk& chunk) {
  if (chunk.has_choice) return false;  // one was asked for
  chunk.has_choice = true;
  return json.object([&](std::string_view key) {
    if (key == "token_ids") return read_token_ids(json, chunk);
    if (key == "prompt_token_ids") return json.skip_numbers();
    if (key == "finish_reason") return read_finish(json, chunk);
    if (key == "stop_reason") return read_stop_reason(json, chunk);
    if (key == "logprobs") return read_logprobs(json, chunk);
    if (key == "text") {
      std::string_view text;
      if (!json.string(text)) return false;
      chunk.has_text = !text.empty();
      return true;
    }
    if (key == "index") {
      std::int64_t index = 0;
      return json.integer(index) && index == 0;
    }
    return json.skip();
  });
}

bool read_details(JsonCursor& json, ChunkUsage& usage) {
  return json.object([&](std::string_view key) {
    if (key != "cached_tokens") return json.skip();
    return json.take_null() || read_count(json, usage.cached_tokens.emplace());
  });
}

bool read_usage(JsonCursor& json, Chunk& chunk) {
  if (json.take_null()) return true;
  ChunkUsage& usage = chunk.usage.emplace();
  return json.object([&](std::string_view key) {
    if (key == "prompt_tokens") return read_count(json, usage.prompt_tokens);
    if (key == "completion_tokens") return json.take_null() || read_count(json, usage.completion_tokens);
    if (key == "prompt_tokens_details") return json.take_null() || read_details(json, usage);
    return json.skip();
  });
}

bool read_error(JsonCursor& json, Chunk& chunk) {
  if (json.take_null()) return true;
  chunk.failed = true;
  if (json.next_is('"')) return json.skip();
  return json.object([&](std::string_view key) {
    // Not the message: it may hold the prompt.
    if (key == "type" && json.next_is('"')) {
      std::string_view type;
      if (!json.string(type)) return false;
      chunk.error_type = type.substr(0, kErrorTypeMax);
      return true;
    }
    if (key == "code" && !json.next_is('"') && !json.next_is('n')) return json.integer(chunk.error_code);
    return json.skip();
  });
}

}  // namespace

bool read_chunk(std::string_view text, Chunk& chunk) {
  JsonCursor json(text);
  const bool read = json.object([&](std::string_view key) {
    if (key == "choices") return json.array([&] { return read_choice(json, chunk); });
    if (key == "usage") return read_usage(json, chunk);
    if (key == "error") return read_error(json, chunk);
    return json.skip();
  });
  return read && json.done();
}

}  // namespace kvern::engine
