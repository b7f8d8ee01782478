// GET /v1/models and /v1/models/{id} in OpenAI's form, with the context length as vLLM adds it, and in Anthropic's.
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
/// In Anthropic's form: {"data": [...], "has_more": false, "first_id", "last_id"}, on one page.
std::string render_messages_model_list(std::span<const ModelEntry> models);
/// As render_model(), in Anthropic's form.
Result<std::string> render_messages_model(std::span<const ModelEntry> models, std::string_view name);
/// One entry by its exact name, slashes included; else the error that unknown_model() makes.
Result<std::string> render_model(std::span<const ModelEntry> models, std::string_view name);
/// The error for a name that is not served: lists what is, and the line of config that would add an alias.
Error unknown_model(std::span<const ModelEntry> models, std::string_view name);

}  // namespace kvern::api
