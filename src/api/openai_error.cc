#include "api/openai_error.h"

#include <algorithm>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

struct Shape {
  int status;
  std::string_view type;
  std::string_view code;
  std::string_view fixed_text = {};
};

Shape shape_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidRequest: return {400, "invalid_request_error", ""};
    case ErrorCode::kContextLength: return {400, "invalid_request_error", "context_length_exceeded"};
    case ErrorCode::kNotFound: return {404, "invalid_request_error", "not_found"};
    case ErrorCode::kMethodNotAllowed: return {405, "invalid_request_error", "method_not_allowed"};
    case ErrorCode::kTooLarge: return {413, "invalid_request_error", "request_too_large"};
    case ErrorCode::kUnsupportedMedia: return {415, "invalid_request_error", "unsupported_media_type"};
    case ErrorCode::kForbidden: return {403, "permission_error", "forbidden"};
    case ErrorCode::kMisdirected: return {421, "invalid_request_error", "misdirected_request"};
    case ErrorCode::kUnauthorized: return {401, "authentication_error", "invalid_api_key"};
    case ErrorCode::kUpgradeRefused: return {426, "invalid_request_error", "upgrade_refused"};
    case ErrorCode::kOverloaded: return {429, "rate_limit_error", "rate_limit_exceeded"};
    case ErrorCode::kUnavailable: return {503, "service_unavailable_error", "service_unavailable"};
    case ErrorCode::kTimeout: return {504, "timeout_error", "timeout"};
    case ErrorCode::kCancelled: return {499, "cancelled_error", "cancelled"};
    case ErrorCode::kEngine: return {500, "server_error", "engine_error"};
    case ErrorCode::kInternal: break;
  }
  return {500, "server_error", "internal_error", "The server failed on this request."};
}

}  // namespace

void append_openai_error(const Error& error, std::string& out) {
  const Shape shape = shape_of(error.code);
  const std::string_view code = error.detail.empty() ? shape.code : std::string_view(error.detail);
  json::Writer writer(out);
  writer.begin_object().key("error").begin_object();
  writer.member("message", shape.fixed_text.empty() ? std::string_view(error.message) : shape.fixed_text);
  writer.member("type", shape.type).key("param");
  error.param.empty() ? writer.null() : writer.value(error.param);
  writer.key("code");
  code.empty() ? writer.null() : writer.value(code);
  writer.end_object().end_object();
}

Reply openai_error(const Error& error) {
  Reply reply;
  reply.status = shape_of(error.code).status;
  // The body of a slow client: the fault is theirs, where other deadlines are ours.
  if (error.code == ErrorCode::kTimeout && error.detail == "request_timeout") reply.status = 408;
  reply.headers.emplace_back("content-type", "application/json");
  if (reply.status == 426) reply.headers.emplace_back("upgrade", "HTTP/1.1");
  if (reply.status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
  if (reply.status == 429 || reply.status == 503) {
    const auto wait = std::max<std::int64_t>(error.retry_after.value_or(std::chrono::seconds(1)).count(), 1);
    reply.headers.emplace_back("retry-after", std::to_string(wait));
  }
  append_openai_error(error, reply.body);
  return reply;
}

}  // namespace kvern::api
