// GET /v1/models and /v1/models/{id} in OpenAI's form, with the context length as vLLM adds it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvern::api {

struct ModelEntry {
  std::string name;
  std::int64_t created = 0;         // unix time
  std::uint32_t max_model_len = 0;  // tokens; 0 is unknown and left out
};

/// {"object": "list", "data": [...]}.
std::string render_model_list(std::span<const ModelEntry> models);
/// One entry by its exact name, slashes included; else the error that unknown_model() makes.
Result<std::string> render_model(std::span<const ModelEntry> models, std::string_view name);
/// The error for a name that is not served: lists what is, and the line of config that would add an alias.
Error unknown_model(std::span<const ModelEntry> models, std::string_view name);

}  // namespace kvern::api
