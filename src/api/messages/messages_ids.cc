#include "api/messages/messages_ids.h"

#include <simdjson.h>

#include <algorithm>

#include "base/base64.h"

namespace kvern::api {
namespace {

constexpr std::string_view kToolUse = "toolu_";
constexpr std::string_view kCall = "call_";
constexpr std::string_view kShown = "kv1.";
constexpr std::string_view kHidden = "kv1h.";
constexpr std::size_t kNumberDigits = 20;  // the request's 16 and the block's 4

bool is_number(std::string_view text) {
  return text.size() == kNumberDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string number(RequestId request, std::uint32_t block) { return hex64(request.value) + hex64(block).substr(12); }

}  // namespace

std::string tool_use_id(std::string_view call_id, RequestId request, std::uint32_t block) {
  std::string out(kToolUse);
  // The pipeline's own ids are unique already: only the prefix changes.
  if (call_id.starts_with(kCall) && is_number(call_id.substr(kCall.size())))
    return out.append(call_id.substr(kCall.size()));
  return out + number(request, block) + "_" + base64url(call_id);
}

std::string call_id_of(std::string_view tool_use_id) {
  if (!tool_use_id.starts_with(kToolUse)) return std::string(tool_use_id);
  const std::string_view rest = tool_use_id.substr(kToolUse.size());
  if (!is_number(rest.substr(0, kNumberDigits))) return std::string(tool_use_id);
  if (rest.size() == kNumberDigits) return std::string(kCall).append(rest);
  if (rest[kNumberDigits] != '_') return std::string(tool_use_id);
  const auto native = from_base64url(rest.substr(kNumberDigits + 1));
  return native && simdjson::validate_utf8(*native) ? *native : std::string(tool_use_id);
}

std::string thinking_signature(RequestId request, std::uint32_t block) {
  return std::string(kShown) + number(request, block);
}

std::string hidden_thinking_signature(std::string_view text) { return std::string(kHidden) + base64url(text); }

std::optional<std::string> hidden_thinking(std::string_view signature) {
  if (!signature.starts_with(kHidden)) return std::nullopt;
  auto text = from_base64url(signature.substr(kHidden.size()));
  return text && simdjson::validate_utf8(*text) ? text : std::nullopt;
}

}  // namespace kvern::api
