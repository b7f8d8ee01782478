// vLLM's error envelope: {"error": {"message", "type", "param", "code"}}, the code being the status.
#pragma once

#include "api/dialect.h"
#include "base/result.h"

namespace kvern::api {

Reply vllm_error(const Error& error);

}  // namespace kvern::api
