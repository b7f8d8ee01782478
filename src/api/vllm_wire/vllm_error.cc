#include "api/vllm_wire/vllm_error.h"

#include "api/openai_error.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

std::string_view type_of(int status) noexcept {
  switch (status) {
    case 401: return "AuthenticationError";
    case 403: return "PermissionDeniedError";
    case 404: return "NotFoundError";
    case 429: return "RateLimitError";
    case 503: return "ServiceUnavailableError";
    default: break;
  }
  return status < 500 ? "BadRequestError" : "InternalServerError";
}

}  // namespace

Reply vllm_error(const Error& error) {
  Reply reply = openai_error(error);  // its status and headers are the same
  reply.body.clear();
  json::Writer writer(reply.body);
  writer.begin_object().key("error").begin_object();
  const bool is_ours = error.code == ErrorCode::kInternal;
  writer.member("message", is_ours ? std::string("The server failed on this request.") : error.message);
  writer.member("type", type_of(reply.status)).key("param");
  if (error.code == ErrorCode::kContextLength) {
    writer.value("input_tokens");
  } else if (error.param.empty()) {
    writer.null();
  } else {
    writer.value(error.param);
  }
  writer.member("code", reply.status).end_object().end_object();
  return reply;
}

}  // namespace kvern::api
