#include "app/banner.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"

namespace kvern::app {

std::string base_url(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return is_v6 ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

std::string reachable_host(const std::string& host) {
  if (host != "0.0.0.0" && host != "::" && host != "[::]") return host;
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : host;
}

namespace {

/// An endpoint bound to all addresses, as one that can be connected to.
std::string reachable_endpoint(const std::string& endpoint, std::string_view url) {
  const std::size_t begin = url.find("://") + 3;
  const std::string_view host = url.substr(begin, url.rfind(':') - begin);
  for (const std::string_view all : {"tcp://0.0.0.0:", "tcp://[::]:", "tcp://*:"}) {
    if (endpoint.starts_with(all)) return fmt::format("tcp://{}:{}", host, endpoint.substr(all.size()));
  }
  return endpoint;
}

void line(std::string& text, std::string_view label, const std::string& value) {
  text += fmt::format("  {:<10} {}\n", label, printable(value));  // a worker may call its model anything
}

/// A model id as it stands in a JSON string inside single quotes of a shell: what is pasted runs nothing else.
std::string pasted(const std::string& model) {
  std::string out;
  for (const char c : printable(model)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

/// A model id as one word of a shell.
std::string shell_word(const std::string& model) {
  std::string out = "'";
  for (const char c : printable(model)) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What to paste, for the first clients people try.
std::string try_it(const std::string& url, const std::string& model, bool needs_name, bool needs_key) {
  const std::string name = needs_name ? fmt::format("\"model\": \"{}\", ", pasted(model)) : std::string();
  return fmt::format(
      "\n  Try it:\n"
      "    curl -N {0}/v1/chat/completions -H 'content-type: application/json'{3} \\\n"
      "      -d '{{{2}\"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}], \"stream\": true}}'\n"
      "\n  OpenAI SDKs:  OPENAI_BASE_URL={0}/v1 OPENAI_API_KEY={4}\n"
      "  opencode, and other clients of Chat Completions:  base URL {0}/v1, model {1}\n"
      "  Agents, with a model of 32k tokens of context or more (docs/clients.md has more lines):\n"
      "    ANTHROPIC_BASE_URL={0} ANTHROPIC_AUTH_TOKEN={5} claude --model {6}\n"
      "    KVERN_KEY={5} codex -m {6} -c model_provider=kvern -c \\\n"
      "      "
      "'model_providers.kvern={{name=\"kvern\",base_url=\"{0}/v1\",env_key=\"KVERN_KEY\",wire_api=\"responses\"}}'\n\n",
      url, printable(model), name, needs_key ? " -H \"authorization: Bearer $KEY\"" : "",
      needs_key ? "$KEY (one of the config's)" : "none", needs_key ? "$KEY" : "none", shell_word(model));
}

}  // namespace

std::string banner(const LoadedModel& loaded, const std::string& url, bool asks_for_keys) {
  const auto& model = *loaded.model;
  std::string text;
  line(text, "model", fmt::format("{} ({} engine, {})", model.name, loaded.engine, loaded.file));
  line(text, "context", fmt::format("{} tokens", model.context_tokens));
  line(text, "tools",
       loaded.template_has_tools ? "the chat template prints tools"
                                 : "the chat template has no place for tools: they are told in a system message");
  line(text, "parser", "hermes (<think> and <tool_call>), the only family so far");
  line(text, "kv cache",
       loaded.cache_tokens > 0 ? fmt::format("{} tokens, shared by all requests in blocks of 16", loaded.cache_tokens)
                               : std::string("none"));
  for (const auto& warning : loaded.warnings) line(text, "warning", warning);
  return text + try_it(url, model.name, false, asks_for_keys);
}

std::string workers_banner(const std::vector<Workers::Line>& workers, const std::string& url, bool asks_for_keys) {
  std::string text;
  std::string first;
  bool several = false;
  for (const auto& worker : workers) {
    std::string state = worker.model.empty() ? std::string("no answer yet")
                                             : fmt::format("{}, {} tokens", worker.model, worker.context_tokens);
    if (!worker.trouble.empty()) state += ": " + worker.trouble;
    line(text, "worker", fmt::format("{} ({}, {}): {}", worker.name, worker.kind, worker.url, state));
    if (worker.model.empty()) continue;
    if (first.empty()) first = worker.model;
    several = several || worker.model != first;
  }
  if (first.empty()) {
    return text +
           "\n  No worker answers yet. They are asked until they do; `kvern doctor --workers FILE` says what is "
           "wrong.\n\n";
  }
  return text + try_it(url, first, several, asks_for_keys);
}

std::string worker_banner(const LoadedModel& loaded, const EventSource& events, const std::string& url) {
  const auto& model = *loaded.model;
  std::string text;
  line(text, "model", fmt::format("{} ({} engine, {})", model.name, loaded.engine, loaded.file));
  line(text, "context", fmt::format("{} tokens", model.context_tokens));
  for (const auto& warning : loaded.warnings) line(text, "warning", warning);
  std::string more;
  if (!events.endpoint.empty()) {
    line(text, "events", events.endpoint);
    more += fmt::format(", events: \"{}\"", reachable_endpoint(events.endpoint, url));
  }
  if (events.connects) more += ", bind: true";
  if (!events.replay_endpoint.empty())
    more += fmt::format(", replay: \"{}\"", reachable_endpoint(events.replay_endpoint, url));
  return text + fmt::format(
                    "\n  For the workers file of `kvern serve --workers FILE`:\n"
                    "    workers: [{{name: a, kind: kvern, url: \"{}\", tokenizer: \"{}\"{}}}]\n\n",
                    url, loaded.file, more);
}

}  // namespace kvern::app
