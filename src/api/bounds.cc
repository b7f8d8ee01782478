#include "api/bounds.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"

namespace kvern::api {
namespace {

class Bounds {
 public:
  explicit Bounds(const Limits& limits) : limits_(limits) {}

  std::optional<Error> check(const ir::Request& request) {
    bytes(Limit::kModelBytes, request.model, "model");
    prompt(request.prompt);
    for (const auto& more : request.more_prompts) prompt(more);
    count(Limit::kChoices, request.answers(), "n");
    tools(request);
    options(request);
    hints(request);
    return std::move(fault_);
  }

 private:
  void count(Limit limit, std::uint64_t amount, std::string_view field) {
    if (!fault_) fault_ = limits_.check(limit, amount, field);
  }
  void bytes(Limit limit, std::string_view text, std::string_view field) { count(limit, text.size(), field); }

  void prompt(const ir::Prompt& prompt) {
    if (const auto* tokens = std::get_if<Tokens>(&prompt)) count(Limit::kPromptTokens, tokens->size(), "prompt");
    const auto* messages = std::get_if<std::vector<ir::Message>>(&prompt);
    if (messages == nullptr) return;
    // One more: instructions that stand outside of the messages become one.
    count(Limit::kMessages, messages->size() - std::min<std::size_t>(messages->size(), 1), "messages");
    for (const auto& each : *messages) message(each);
  }

  void message(const ir::Message& message) {
    bytes(Limit::kNameBytes, message.name, "name");
    std::uint64_t calls = 0;
    for (const auto& block : message.blocks) {
      if (const auto* made = std::get_if<ir::ToolCall>(&block.content)) call(*made, calls);
      if (const auto* result = std::get_if<ir::ToolResult>(&block.content)) take(*result);
    }
    count(Limit::kToolCalls, calls, "tool_calls");
    // Some dialects spread over several objects what is one message here.
    count(Limit::kParts,
          message.blocks.size() - std::min<std::size_t>(message.blocks.size(), limits_[Limit::kMessages]), "content");
  }

  void call(const ir::ToolCall& call, std::uint64_t& calls) {
    ++calls;
    bytes(Limit::kIdBytes, call.id, "tool_calls.id");
    bytes(Limit::kToolNameBytes, call.name, "tool_calls.name");
    bytes(Limit::kToolNameBytes, call.tool_namespace, "tool_calls.namespace");
  }

  void take(const ir::ToolResult& result) {
    bytes(Limit::kIdBytes, result.call_id, "tool_call_id");
    bytes(Limit::kToolNameBytes, result.name, "name");
    count(Limit::kParts, result.parts.size(), "content");
  }

  /// A call could not say which of them it means.
  void two_of_a_name(const std::vector<ir::Tool>& tools) {
    std::vector<std::string> names;
    for (const auto& tool : tools) {
      if (tool.kind != ir::ToolKind::kHosted) names.push_back(ir::prompt_name(tool.tool_namespace, tool.name));
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (!fault_ && twice != names.end()) fault_ = invalid("tools", "`tools` has two of the name " + shown(*twice));
  }

  void tools(const ir::Request& request) {
    count(Limit::kTools, request.tools.size(), "tools");
    count(Limit::kTools, request.tool_namespaces.size(), "tools");
    for (const auto& tool : request.tools) {
      bytes(Limit::kToolNameBytes, tool.name, "tools.name");
      bytes(Limit::kToolNameBytes, tool.tool_namespace, "tools.name");
      bytes(Limit::kToolDescriptionBytes, tool.description, "tools.description");
      bytes(Limit::kToolSchemaBytes, tool.parameters, "tools.parameters");
      if (tool.grammar) bytes(Limit::kToolSchemaBytes, tool.grammar->definition, "tools.definition");
    }
    two_of_a_name(request.tools);
    for (const auto& space : request.tool_namespaces) {
      bytes(Limit::kToolNameBytes, space.name, "tools.name");
      bytes(Limit::kToolDescriptionBytes, space.description, "tools.description");
    }
    count(Limit::kTools, request.tool_choice.allowed.size(), "tool_choice");
  }

  void options(const ir::Request& request) {
    const auto& format = request.response_format;
    bytes(Limit::kNameBytes, format.name, "response_format.name");
    bytes(Limit::kToolDescriptionBytes, format.description, "response_format.description");
    bytes(Limit::kToolSchemaBytes, format.schema, "response_format.schema");
    const auto& stopping = request.stopping;
    count(Limit::kStopStrings, stopping.strings.size(), "stop");
    for (const auto& text : stopping.strings) bytes(Limit::kStopBytes, text, "stop");
    count(Limit::kStopTokenIds, stopping.token_ids.size(), "stop_token_ids");
    count(Limit::kMaxTokens, stopping.max_tokens.value_or(0), "max_tokens");
    count(Limit::kMinTokens, stopping.min_tokens, "min_tokens");
    count(Limit::kLogitBias, request.sampling.logit_bias.size(), "logit_bias");
    count(Limit::kTopLogprobs, request.logprobs.value_or(0), "top_logprobs");
    count(Limit::kTemplateOptions, request.template_options.size(), "chat_template_kwargs");
    for (const auto& [name, value] : request.template_options)
      bytes(Limit::kTemplateOptionBytes, value, "chat_template_kwargs");
  }

  void hints(const ir::Request& request) {
    const auto& session = request.session;
    for (const auto* id : {&session.id, &session.agent, &session.parent}) bytes(Limit::kIdBytes, *id, "session");
    bytes(Limit::kIdBytes, request.hints.cache_salt, "cache_salt");
    bytes(Limit::kIdBytes, request.hints.worker, "worker");
    for (const auto* list : {&request.hints.annotations, &request.hints.extra_fields}) {
      count(Limit::kHintEntries, list->size(), "nvext");
      for (const auto& text : *list) bytes(Limit::kIdBytes, text, "nvext");
    }
  }

  const Limits& limits_;
  std::optional<Error> fault_;
};

}  // namespace

std::optional<Error> check_bounds(const ir::Request& request, const Limits& limits) {
  return Bounds(limits).check(request);
}

}  // namespace kvern::api
