#include "api/models/models.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "api/fields.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

void write(const ModelEntry& model, json::Writer& writer) {
  writer.begin_object().member("id", model.name).member("object", "model").member("created", model.created);
  writer.member("owned_by", "kvern");
  if (model.max_model_len > 0) writer.member("max_model_len", model.max_model_len);
  writer.end_object();
}

void write_messages(const ModelEntry& model, json::Writer& writer) {
  writer.begin_object().member("type", "model").member("id", model.name).member("display_name", model.name);
  writer.member("created_at",
                fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(model.created))));
  writer.member("lifecycle", "active");
  if (model.max_model_len > 0) {
    writer.member("max_input_tokens", model.max_model_len).member("max_tokens", model.max_model_len);
  }
  writer.end_object();
}

constexpr std::size_t kNamesShown = 20;

}  // namespace

std::string render_model_list(std::span<const ModelEntry> models) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("object", "list").key("data").begin_array();
  for (const ModelEntry& model : models) write(model, writer);
  writer.end_array().end_object();
  return out;
}

Result<std::string> render_model(std::span<const ModelEntry> models, std::string_view name) {
  for (const ModelEntry& model : models) {
    if (model.name != name) continue;
    std::string out;
    json::Writer writer(out);
    write(model, writer);
    return out;
  }
  return unknown_model(models, name);
}

std::string render_messages_model_list(std::span<const ModelEntry> models) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("data").begin_array();
  for (const ModelEntry& model : models) write_messages(model, writer);
  writer.end_array().member("has_more", false);
  writer.key("first_id");
  models.empty() ? writer.null() : writer.value(models.front().name);
  writer.key("last_id");
  models.empty() ? writer.null() : writer.value(models.back().name);
  writer.end_object();
  return out;
}

Result<std::string> render_messages_model(std::span<const ModelEntry> models, std::string_view name) {
  const auto found = std::ranges::find(models, name, &ModelEntry::name);
  if (found == models.end()) return unknown_model(models, name);
  std::string out;
  json::Writer writer(out);
  write_messages(*found, writer);
  return out;
}

Error unknown_model(std::span<const ModelEntry> models, std::string_view name) {
  std::string served;
  for (std::size_t i = 0; i < models.size() && i < kNamesShown; ++i) served += (i == 0 ? "" : ", ") + models[i].name;
  if (models.size() > kNamesShown) served += fmt::format(" and {} more", models.size() - kNamesShown);
  const std::string asked = shown(name);
  std::string message =
      fmt::format("The model `{}` is not served here. Served: {}.", asked, served.empty() ? "none" : served);
  if (!models.empty())
    message += fmt::format(
        " To accept this name, start with --alias '{1}', or add to the config: models: [{{name: \"{0}\", aliases: "
        "[\"{1}\"]}}]",
        models[0].name, asked);
  return {ErrorCode::kNotFound, std::move(message), "model", "model_not_found", {}};
}

}  // namespace kvern::api
