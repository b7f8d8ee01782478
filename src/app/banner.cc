#include "app/banner.h"

#include <fmt/format.h>

namespace kvern::app {

std::string base_url(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return is_v6 ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

std::string banner(const LoadedModel& loaded, const std::string& url) {
  const auto& model = *loaded.model;
  std::string text;
  const auto line = [&text](std::string_view label, const std::string& value) {
    text += fmt::format("  {:<10} {}\n", label, value);
  };
  line("model", fmt::format("{} ({} engine, {})", model.name, loaded.engine, loaded.file));
  line("context", fmt::format("{} tokens", model.context_tokens));
  line("tools", loaded.template_has_tools ? "the chat template prints tools"
                                          : "the chat template has no place for tools: the model will not see them");
  line("parser", "hermes (<think> and <tool_call>), the only family so far");
  line("kv cache", loaded.cache_tokens > 0
                       ? fmt::format("{} tokens, shared by all requests in blocks of 16", loaded.cache_tokens)
                       : std::string("none"));
  for (const auto& warning : loaded.warnings) line("warning", warning);
  text += fmt::format(
      "\n  Try it:\n"
      "    curl -N {0}/v1/chat/completions -H 'content-type: application/json' \\\n"
      "      -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}], \"stream\": true}}'\n"
      "\n  OpenAI SDKs:  OPENAI_BASE_URL={0}/v1 OPENAI_API_KEY=none\n"
      "  opencode, and other clients of Chat Completions:  base URL {0}/v1, model {1}\n\n",
      url, model.name);
  return text;
}

}  // namespace kvern::app
