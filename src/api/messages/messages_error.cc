#include "api/messages/messages_error.h"

#include <algorithm>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

struct Shape {
  int status;
  std::string_view type;
  std::string_view fixed_text = {};
};

Shape shape_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidRequest:
    case ErrorCode::kContextLength: return {400, "invalid_request_error"};
    case ErrorCode::kNotFound: return {404, "not_found_error"};
    case ErrorCode::kMethodNotAllowed: return {405, "invalid_request_error"};
    case ErrorCode::kTooLarge: return {413, "request_too_large"};
    case ErrorCode::kUnsupportedMedia: return {415, "invalid_request_error"};
    case ErrorCode::kForbidden: return {403, "permission_error"};
    case ErrorCode::kMisdirected: return {421, "invalid_request_error"};
    case ErrorCode::kUnauthorized: return {401, "authentication_error"};
    case ErrorCode::kUpgradeRefused: return {426, "invalid_request_error"};
    case ErrorCode::kOverloaded: return {529, "overloaded_error"};
    case ErrorCode::kUnavailable: return {503, "api_error"};
    case ErrorCode::kTimeout: return {504, "timeout_error"};
    case ErrorCode::kCancelled: return {499, "api_error"};
    case ErrorCode::kEngine: return {500, "api_error"};
    case ErrorCode::kInternal: break;
  }
  return {500, "api_error", "The server failed on this request."};
}

}  // namespace

void append_messages_error(const Error& error, RequestId id, std::string& out) {
  const Shape shape = shape_of(error.code);
  json::Writer writer(out);
  writer.begin_object().member("type", "error").key("error").begin_object();
  writer.member("type", shape.type);
  writer.member("message", shape.fixed_text.empty() ? std::string_view(error.message) : shape.fixed_text);
  writer.end_object().member("request_id", to_string(id)).end_object();
}

Reply messages_error(const Error& error, RequestId id) {
  Reply reply;
  reply.status = shape_of(error.code).status;
  // The body of a slow client: the fault is theirs, where other deadlines are ours.
  if (error.code == ErrorCode::kTimeout && error.detail == "request_timeout") reply.status = 408;
  reply.headers.emplace_back("content-type", "application/json");
  reply.headers.emplace_back("request-id", to_string(id));
  if (reply.status == 426) reply.headers.emplace_back("upgrade", "HTTP/1.1");
  if (reply.status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
  if (reply.status == 503 || reply.status == 529) {
    const auto wait = std::max<std::int64_t>(error.retry_after.value_or(std::chrono::seconds(1)).count(), 1);
    reply.headers.emplace_back("retry-after", std::to_string(wait));
  }
  append_messages_error(error, id, reply.body);
  return reply;
}

}  // namespace kvern::api
