#include "engine/vllm/worker_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "engine/vllm/json_cursor.h"

namespace kvern::engine {
namespace {

constexpr std::chrono::seconds kRetryAfterMost{300};

/// {"error": {"message", "param", ...}}; older servers leave the envelope out. Views into the body, escapes and all.
struct Told {
  std::string_view message;
  std::string_view param;
  std::string_view type;
};

bool read_told(JsonCursor& json, Told& told) {
  return json.object([&](std::string_view key) {
    if (key == "error" && json.next_is('{')) return read_told(json, told);
    if (key == "message" && json.next_is('"')) return json.string(told.message);
    if (key == "param" && json.next_is('"')) return json.string(told.param);
    if (key == "type" && json.next_is('"')) return json.string(told.type);
    return json.skip();
  });
}

std::optional<std::chrono::seconds> retry_after(const net::Headers& headers) {
  const auto text = net::find_header(headers, "retry-after");
  std::int64_t seconds = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), seconds).ec != std::errc{} || seconds < 0) {
    return std::nullopt;
  }
  return std::min(std::chrono::seconds(seconds), kRetryAfterMost);
}

/// Fields that kvern passes on as the client set them, so a worker with narrower bounds refuses the client.
constexpr std::array<std::string_view, 12> kClientFields{
    "temperature", "top_p",    "top_k",          "min_p",      "presence_penalty", "frequency_penalty",
    "min_tokens",  "logprobs", "stop_token_ids", "logit_bias", "max_tokens",       "repetition_penalty"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Refusal read_bad_request(const Told& told) {
  if (told.param == "input_tokens" || contains(told.message, "maximum context length") ||
      contains(told.message, "max_model_len")) {
    Error error = fail(ErrorCode::kContextLength, "The prompt and its answer are longer than the worker's context.");
    return {error};
  }
  if (told.param == "priority" || contains(told.message, "riority scheduling")) {
    return {fail(ErrorCode::kEngine, "The worker refuses priorities."), true};
  }
  for (const std::string_view field : kClientFields) {
    if (told.param != field && !contains(told.message, field)) continue;
    return {invalid(std::string(field), fmt::format("`{}` has a value that the worker does not take.", field))};
  }
  return {fail(ErrorCode::kEngine, "The worker refused the request.")};
}

Refusal read_by_status(int status, const net::Headers& headers, const Told& told) {
  Error error;
  switch (status) {
    case 400:
    case 422: return read_bad_request(told);
    case 401:
    case 403: error = fail(ErrorCode::kUnavailable, "The worker refuses kvern's key."); break;
    case 404: error = fail(ErrorCode::kUnavailable, "The worker does not serve the model."); break;
    case 408:
    case 504: error = fail(ErrorCode::kTimeout, "The worker did not answer in time."); break;
    case 413: error = fail(ErrorCode::kTooLarge, "The prompt is larger than the worker takes."); break;
    case 429: error = fail(ErrorCode::kOverloaded, "The worker has too many requests."); break;
    case 502:
    case 503: error = fail(ErrorCode::kUnavailable, "The worker cannot answer now."); break;
    default:
      error = status >= 500 ? fail(ErrorCode::kEngine, "The worker failed on this request.")
                            : fail(ErrorCode::kUnavailable, "The worker answers with something else than completions.");
      break;
  }
  if (status == 429 || status == 503) error.retry_after = retry_after(headers).value_or(std::chrono::seconds(1));
  return {error};
}

}  // namespace

std::string loggable_word(std::string_view text) {
  constexpr std::size_t kBytesMax = 64;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'; };
  const bool is_word =
      !text.empty() && text.size() <= kBytesMax && is_letter(text.front()) && std::ranges::all_of(text, fits);
  return is_word ? std::string(text) : std::string();
}

Refusal read_refusal(int status, const net::Headers& headers, std::string_view body) {
  Told told;
  JsonCursor json(body);
  read_told(json, told);
  Refusal refusal = read_by_status(status, headers, told);
  refusal.type = loggable_word(told.type);
  refusal.param = loggable_word(told.param);
  return refusal;
}

}  // namespace kvern::engine
