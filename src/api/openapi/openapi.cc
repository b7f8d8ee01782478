#include "api/openapi/openapi.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "api/registry.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

constexpr std::string_view kSchemas =
#include "api/openapi/schemas.inc"
    ;

constexpr std::string_view kJson = "application/json";

/// What the page says of a service: the names of its schemas; empty where there is no body.
struct Operation {
  std::string_view summary;
  std::string_view request;
  std::string_view answer;
  bool streams = false;
  std::string_view error = "OpenAiError";
  std::string_view media = kJson;
  std::string_view query = "";  // parameter objects, with commas between
};

constexpr std::string_view kStreamQuery =
    R"({"name":"stream","in":"query","schema":{"type":"boolean"}},)"
    R"({"name":"starting_after","in":"query","schema":{"type":"integer","minimum":0}})";
constexpr std::string_view kPageQuery =
    R"({"name":"limit","in":"query","schema":{"type":"integer","minimum":1,"maximum":100}},)"
    R"({"name":"order","in":"query","schema":{"type":"string","enum":["asc","desc"]}},)"
    R"({"name":"after","in":"query","schema":{"type":"string"}})";

Operation operation_of(const Endpoint& endpoint) {
  switch (endpoint.service) {
    case Service::kChat: return {"OpenAI's Chat Completions", "ChatRequest", "ChatAnswer", true};
    case Service::kCompletions: return {"OpenAI's Completions", "CompletionRequest", "CompletionAnswer", true};
    case Service::kResponses: return {"OpenAI's Responses", "ResponsesRequest", "ResponsesAnswer", true};
    case Service::kCompact: return {"A long conversation made short", "CompactRequest", "Compaction"};
    case Service::kResponse: {
      if (endpoint.method == "DELETE") return {"Deletes a stored response", "", "Deleted"};
      Operation read{"A stored response; one made in the background also as its stream", "", "ResponsesAnswer", true};
      read.query = kStreamQuery;
      return read;
    }
    case Service::kInputItems: {
      Operation list{"What a stored response was asked", "", "ItemList"};
      list.query = kPageQuery;
      return list;
    }
    case Service::kCancel: return {"Ends a response made in the background", "", "ResponsesAnswer"};
    case Service::kMessages:
      return {"Anthropic's Messages", "MessagesRequest", "MessagesAnswer", true, "MessagesError"};
    case Service::kCountTokens:
      return {"The tokens of a Messages prompt", "CountTokensRequest", "CountTokensAnswer", false, "MessagesError"};
    case Service::kModels: return {"The served models; in Anthropic's form with its version header", "", "ModelList"};
    case Service::kModel: return {"One model, by its name or an alias", "", "Model"};
    case Service::kTokenize: return {"Text or messages to token ids", "TokenizeRequest", "TokenizeAnswer"};
    case Service::kDetokenize: return {"Token ids to text", "DetokenizeRequest", "DetokenizeAnswer"};
    case Service::kLive: return {"Whether the process lives", "", "Status"};
    case Service::kReady:
    case Service::kHealth: return {"Whether a worker can answer", "", "Status"};
    case Service::kMetrics: return {"Prometheus' metrics", "", "", false, "OpenAiError", "text/plain"};
    case Service::kOpenApi: return {"This page", "", "OpenApi"};
    case Service::kRoot: return {"The server and its endpoints", "", "Server"};
  }
  return {};
}

/// How OpenAPI names what the "{id}" or the "*" of a path stands for; empty where there is neither.
std::string_view path_parameter(const Endpoint& endpoint) {
  if (endpoint.path.find("{id}") != std::string_view::npos) return "id";
  return endpoint.path.ends_with("/*") ? "name" : "";
}

/// "/v1/models/*" as OpenAPI writes it.
std::string path_of(const Endpoint& endpoint) {
  if (!endpoint.path.ends_with("/*")) return std::string(endpoint.path);
  return std::string(endpoint.path.substr(0, endpoint.path.size() - 1)) + "{name}";
}

void write_content(std::string_view media, std::string_view schema, json::Writer& writer) {
  writer.key(media).begin_object().key("schema").begin_object();
  if (schema.empty()) {
    writer.member("type", "string");
  } else {
    writer.member("$ref", fmt::format("#/components/schemas/{}", schema));
  }
  writer.end_object().end_object();
}

void write_responses(const Operation& operation, json::Writer& writer) {
  writer.key("responses").begin_object();
  writer.key("200").begin_object().member("description", "The answer").key("content").begin_object();
  write_content(operation.media, operation.answer, writer);
  if (operation.streams) write_content("text/event-stream", "ServerSentEvent", writer);
  writer.end_object().end_object();
  writer.key("default").begin_object().member("description", "An error").key("content").begin_object();
  write_content(kJson, operation.error, writer);
  writer.end_object().end_object().end_object();
}

void write_parameters(std::string_view in_path, std::string_view query, json::Writer& writer) {
  if (in_path.empty() && query.empty()) return;
  writer.key("parameters").begin_array();
  if (!in_path.empty()) {
    writer.begin_object().member("name", in_path).member("in", "path").member("required", true);
    writer.key("schema").begin_object().member("type", "string").end_object().end_object();
  }
  if (!query.empty()) writer.raw(query);
  writer.end_array();
}

void write_operation(const Endpoint& endpoint, json::Writer& writer) {
  const Operation operation = operation_of(endpoint);
  std::string method(endpoint.method);
  for (char& c : method) c = static_cast<char>(c | 0x20);
  writer.key(method).begin_object().member("summary", operation.summary);
  if (endpoint.guard == Guard::kOpen) writer.key("security").begin_array().end_array();
  write_parameters(path_parameter(endpoint), operation.query, writer);
  if (!operation.request.empty()) {
    writer.key("requestBody").begin_object().member("required", true).key("content").begin_object();
    write_content(kJson, operation.request, writer);
    writer.end_object().end_object();
  }
  write_responses(operation, writer);
  writer.end_object();
}

void write_security(json::Writer& writer) {
  writer.key("securitySchemes").begin_object();
  writer.key("bearer").begin_object().member("type", "http").member("scheme", "bearer").end_object();
  writer.key("key").begin_object().member("type", "apiKey").member("in", "header").member("name", "x-api-key");
  writer.end_object().end_object();
}

}  // namespace

std::string render_openapi(std::string_view version) {
  std::map<std::string, std::vector<const Endpoint*>> paths;  // methods of one path stand together
  for (const Endpoint& endpoint : endpoints()) paths[path_of(endpoint)].push_back(&endpoint);

  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("openapi", "3.1.0");
  writer.key("info").begin_object().member("title", "kvern").member("version", version).end_object();
  // Where no keys are set, none is needed: the empty alternative.
  writer.key("security").raw(R"([{"bearer":[]},{"key":[]},{}])").key("paths").begin_object();
  for (const auto& [path, methods] : paths) {
    writer.key(path).begin_object();
    for (const Endpoint* endpoint : methods) write_operation(*endpoint, writer);
    writer.end_object();
  }
  writer.end_object().key("components").begin_object().key("schemas").raw(kSchemas);
  write_security(writer);
  writer.end_object().end_object();
  return out;
}

}  // namespace kvern::api
