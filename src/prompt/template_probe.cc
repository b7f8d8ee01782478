#include "prompt/template_probe.h"

#include <string>

namespace kvern::prompt {
namespace {

constexpr const char* kText = "kvern-probe-text";
constexpr const char* kSystem = "kvern-probe-system";
constexpr const char* kToolName = "kvern_probe_tool";
constexpr const char* kResult = "kvern-probe-result";
constexpr const char* kArguments = R"({"kvern_key": "kvern_value"})";

ir::Message message(ir::Role role, ir::Content content) { return {role, "", {{std::move(content), {}}}}; }

std::vector<ir::Message> greeting() { return {message(ir::Role::kUser, ir::Text{kText})}; }

std::vector<ir::Message> with_call() {
  return {message(ir::Role::kUser, ir::Text{kText}),
          message(ir::Role::kAssistant, ir::ToolCall{"callprobe", kToolName, kArguments}),
          message(ir::Role::kTool, ir::ToolResult{"callprobe", kToolName, {ir::Text{kResult}}, false})};
}

std::vector<ir::Tool> one_tool() {
  return {{kToolName, "A tool to try with",
           R"({"type": "object", "properties": {"kvern_key": {"type": "string", "description": "Any"}}, )"
           R"("required": ["kvern_key"]})",
           false}};
}

std::string joined(const Result<std::vector<Span>>& spans) {
  std::string text;
  if (spans.ok()) {
    for (const Span& span : *spans) text += span.text;
  }
  return text;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Sets how the template takes a lone message; false when no way does.
bool find_plain_form(const TrialRender& render, TemplateDialect& dialect) {
  for (const bool tools_list : {false, true}) {
    for (const bool typed_content : {false, true}) {
      dialect.tools_list = tools_list;
      dialect.typed_content = typed_content;
      if (has(joined(render(greeting(), {}, {}, dialect)), kText)) return true;
    }
  }
  dialect.tools_list = false;
  dialect.typed_content = false;
  return false;
}

/// Text when the template prints it as it stands, which keeps a replayed call's exact spelling; else an object.
bool wants_string_arguments(const TrialRender& render, TemplateDialect dialect) {
  dialect.string_arguments = true;
  const std::string as_text = joined(render(with_call(), one_tool(), {}, dialect));
  dialect.string_arguments = false;
  const std::string as_object = joined(render(with_call(), one_tool(), {}, dialect));
  if (has(as_text, kArguments)) return true;
  if (has(as_object, "kvern_key") && !has(as_object, "'kvern_key'")) return false;
  return has(as_text, "kvern_key");
}

}  // namespace

ProbeResult probe_template(std::string_view source, const TrialRender& render) {
  ProbeResult result;
  TemplateDialect& dialect = result.dialect;
  dialect.thinking_key =
      source.find(".thinking") != std::string_view::npos || source.find("['thinking']") != std::string_view::npos;

  const Result<std::vector<Span>> plain = render(greeting(), {}, {}, dialect);
  if (!find_plain_form(render, dialect)) {
    result.traits.warning = plain.ok() ? "the chat template does not print a user's message"
                                       : "the chat template refuses a plain message: " + plain.error().message;
  }

  std::vector<ir::Message> with_system = greeting();
  with_system.insert(with_system.begin(), message(ir::Role::kSystem, ir::Text{kSystem}));
  result.traits.system = has(joined(render(with_system, {}, {}, dialect)), kSystem);
  result.traits.tools = has(joined(render(greeting(), one_tool(), {}, dialect)), kToolName);
  dialect.string_arguments = wants_string_arguments(render, dialect);
  const std::string calls = joined(render(with_call(), {}, {}, dialect));
  dialect.calls = has(calls, "kvern_key") && has(calls, kResult);
  result.thinking =
      find_thinking_switches(source, [&](const std::vector<ir::Message>& messages, const TemplateOptions& options) {
        return joined(render(messages, {}, options, dialect));
      });
  return result;
}

}  // namespace kvern::prompt
