#include "engine/vllm/probe.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/json_reader.h"
#include "engine/vllm/fetch.h"

namespace kvern::engine {
namespace {

constexpr std::size_t kAnswerBytesMax = 1U << 20U;
constexpr std::size_t kModelBytesMax = 512;

net::ClientRequest question(const WorkerAddress& worker, std::string_view path, std::chrono::milliseconds deadline) {
  auto request = request_to(worker, "GET", path);
  request.connect_deadline = deadline;
  request.first_byte_deadline = deadline;
  request.between_deadline = deadline;
  request.body_bytes_max = kAnswerBytesMax;
  return request;
}

Error bad_status(std::string_view path, int status) {
  const std::string_view hint = status == 401 || status == 403 ? ": it refuses kvern's key" : "";
  return fail(ErrorCode::kUnavailable, fmt::format("{} answers {}{}", path, status, hint));
}

std::string text_of(const json::Value& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is(json::Kind::kString) ? value->string() : std::string();
}

std::string read_version(const Result<Fetched>& fetched) {
  if (!fetched || fetched->status != 200) return {};
  const auto document = json::Document::parse(fetched->body, {});
  if (!document || !(*document)->root().is(json::Kind::kObject)) return {};
  return text_of((*document)->root(), "version").substr(0, 64);
}

}  // namespace

Result<WorkerFacts> read_models(std::string_view body, std::string_view wanted) {
  const auto none = fail(ErrorCode::kUnavailable, "/v1/models is not in OpenAI's form");
  const auto document = json::Document::parse(body, {});
  if (!document || !(*document)->root().is(json::Kind::kObject)) return none;
  const auto list = (*document)->root().find("data");
  if (!list || !list->is(json::Kind::kArray)) return none;
  std::optional<WorkerFacts> found;
  for (const auto& [key, entry] : list->children()) {
    if (!entry.is(json::Kind::kObject)) return none;
    WorkerFacts facts;
    facts.model = text_of(entry, "id");
    const auto length = entry.find("max_model_len");
    const auto tokens = length && length->is(json::Kind::kNumber) ? length->integer() : std::nullopt;
    if (tokens && *tokens > 0 && *tokens <= std::numeric_limits<std::int32_t>::max()) {
      facts.max_model_len = static_cast<std::uint32_t>(*tokens);
    }
    const bool is_wanted = facts.model == wanted;
    if (!found || is_wanted) found = std::move(facts);
    if (is_wanted) break;
  }
  if (!found || found->model.empty()) return fail(ErrorCode::kUnavailable, "/v1/models lists no model");
  if (found->model.size() > kModelBytesMax) return none;
  if (found->max_model_len == 0) return fail(ErrorCode::kUnavailable, "/v1/models tells no max_model_len");
  return *found;
}

void probe_health(net::Client& client, const WorkerAddress& worker, std::chrono::milliseconds deadline,
                  std::function<void(Result<void>)> done) {
  fetch(client, question(worker, "/health", deadline), [done = std::move(done)](const Result<Fetched>& fetched) {
    if (!fetched) return done(fetched.error());
    if (fetched->status != 200) return done(bad_status("/health", fetched->status));
    done({});
  });
}

void probe_worker(net::Client& client, const WorkerAddress& worker, const std::string& wanted_model,
                  std::chrono::milliseconds deadline, const std::function<void(Result<WorkerFacts>)>& done) {
  const auto ask_version = [&client, worker, deadline, done](const WorkerFacts& facts) {
    fetch(client, question(worker, "/version", deadline), [facts, done](const Result<Fetched>& fetched) {
      WorkerFacts all = facts;
      all.version = read_version(fetched);
      done(std::move(all));
    });
  };
  const auto ask_models = [&client, worker, wanted_model, deadline, done, ask_version] {
    fetch(client, question(worker, "/v1/models", deadline),
          [wanted_model, done, ask_version](const Result<Fetched>& fetched) {
            if (!fetched) return done(fetched.error());
            if (fetched->status != 200) return done(bad_status("/v1/models", fetched->status));
            auto facts = read_models(fetched->body, wanted_model);
            if (!facts) return done(facts.error());
            ask_version(*facts);
          });
  };
  probe_health(client, worker, deadline, [done, ask_models](const Result<void>& health) {
    if (!health) return done(health.error());
    ask_models();
  });
}

}  // namespace kvern::engine
