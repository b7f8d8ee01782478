#include "prompt/jinja_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "prompt/conversation.h"
#include "prompt/gguf_metadata.h"
#include "prompt/jinja_program.h"
#include "prompt/json_value.h"
#include "prompt/template_probe.h"
#include "prompt/told_tools.h"

namespace kvern::prompt {
namespace {

/// Names a client's template options may not take: what we set, what the language has, and what would read as a way to
/// bring a template along.
constexpr std::array<std::string_view, 23> kReserved = {"messages",
                                                        "tools",
                                                        "documents",
                                                        "bos_token",
                                                        "eos_token",
                                                        "add_generation_prompt",
                                                        "chat_template",
                                                        "template",
                                                        "tokenize",
                                                        "return_dict",
                                                        "raise_exception",
                                                        "strftime_now",
                                                        "namespace",
                                                        "dict",
                                                        "range",
                                                        "tojson",
                                                        "loop",
                                                        "true",
                                                        "false",
                                                        "none",
                                                        "True",
                                                        "False",
                                                        "None"};

bool is_identifier(std::string_view name) {
  const auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= 64 && word(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return word(c) || digit(c); });
}

std::optional<Error> check_options(const std::map<std::string, std::string>& options) {
  for (const auto& [name, json] : options) {
    if (!is_identifier(name) || std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
      return invalid("chat_template_kwargs", "this name cannot be set for the chat template");
    }
  }
  return std::nullopt;
}

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(std::shared_ptr<const JinjaProgram> program, TemplateTokens tokens, const RenderLimits& limits)
      : program_(std::move(program)), tokens_(std::move(tokens)), limits_(limits) {}

  /// Before the template is shared.
  void learn(ProbeResult probed) {
    dialect_ = probed.dialect;
    thinking_ = probed.thinking;
    traits_ = std::move(probed.traits);
  }
  void warn(std::string warning) { traits_.warning = std::move(warning); }

  Result<std::vector<Span>> run(const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                const std::map<std::string, std::string>& options,
                                const TemplateDialect& dialect) const {
    const auto setup = [&](jinja::context& context) {
      for (const auto& [name, json] : options) {
        std::optional<jinja::value> value = json_value(json);
        const bool scalar = value && (*value)->val_arr.empty() && (*value)->val_obj.empty();
        if (scalar) context.set_val(name, *value);
      }
      context.set_val("messages", conversation_messages(messages, dialect));
      context.set_val("tools", conversation_tools(tools, dialect));
      context.set_val("documents", jinja::mk_val<jinja::value_none>());
      context.set_val("bos_token", jinja::mk_val<jinja::value_string>(tokens_.bos));
      context.set_val("eos_token", jinja::mk_val<jinja::value_string>(tokens_.eos));
      context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(true));
    };
    return program_->run(setup, limits_, conversation_bytes(messages, tools));
  }

  Result<std::vector<Span>> render(const ir::Request& request) const override {
    const auto* messages = std::get_if<std::vector<ir::Message>>(&request.prompt);
    KV_CHECK(messages != nullptr);
    if (std::optional<Error> error = check_options(request.template_options)) return std::move(*error);
    TemplateOptions options = request.template_options;
    set_thinking(request.reasoning, thinking_, options);
    if (!traits_.tools && needs_telling(*messages, request.tools, dialect_.calls))
      return run(with_told_tools(*messages, request.tools, traits_.system), {}, options, dialect_);
    return run(*messages, request.tools, options, dialect_);
  }
  const TemplateTraits& traits() const override { return traits_; }

 private:
  std::shared_ptr<const JinjaProgram> program_;
  TemplateTokens tokens_;
  RenderLimits limits_;
  TemplateDialect dialect_;
  ThinkingSwitches thinking_;
  TemplateTraits traits_;
};

Result<std::shared_ptr<JinjaTemplate>> make_template(std::string_view source, const TemplateTokens& tokens,
                                                     const RenderLimits& limits) {
  Result<std::shared_ptr<const JinjaProgram>> program = JinjaProgram::compile(source);
  if (!program.ok()) return std::move(program).error();
  auto made = std::make_shared<JinjaTemplate>(std::move(*program), tokens, limits);
  std::optional<Error> over_bound;
  const TrialRender trial = [&](const std::vector<ir::Message>& messages, const std::vector<ir::Tool>& tools,
                                const TemplateOptions& options,
                                const TemplateDialect& dialect) -> Result<std::vector<Span>> {
    if (over_bound) return *over_bound;  // one trial that runs away is enough
    Result<std::vector<Span>> spans = made->run(messages, tools, options, dialect);
    if (!spans.ok() && spans.error().param.empty()) over_bound = spans.error();
    return spans;
  };
  ProbeResult probed = probe_template(source, trial);
  if (over_bound) return std::move(*over_bound);
  made->learn(std::move(probed));
  return made;
}

std::string spelling(const GgufInfo& model, const char* id_key) {
  if (model.metadata == nullptr) return {};
  const kvern_vocab::Metadata& values = model.metadata->values;
  const auto id = values.find(id_key);
  const auto list = values.find("tokenizer.ggml.tokens");
  if (id == values.end() || list == values.end() || id->second.words.empty()) return {};
  const auto index = static_cast<std::uint32_t>(id->second.words[0]);
  return index < list->second.strings.size() ? list->second.strings[index] : std::string();
}

}  // namespace

const char* const kDefaultTemplate = R"({%- if tools %}
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}
{{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>' }}
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}
{{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- elif not (tools and loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

Result<std::shared_ptr<const ChatTemplate>> compile_template(std::string_view source, const TemplateTokens& tokens,
                                                             const RenderLimits& limits) {
  Result<std::shared_ptr<JinjaTemplate>> made = make_template(source, tokens, limits);
  if (!made.ok()) return std::move(made).error();
  return std::shared_ptr<const ChatTemplate>(std::move(*made));
}

Result<std::shared_ptr<const ChatTemplate>> load_template(const GgufInfo& model, std::string_view override_text,
                                                          const RenderLimits& limits) {
  const TemplateTokens tokens{spelling(model, "tokenizer.ggml.bos_token_id"),
                              spelling(model, "tokenizer.ggml.eos_token_id")};
  const bool fallback = override_text.empty() && model.chat_template.empty();
  const std::string_view source = !override_text.empty() ? override_text
                                  : fallback             ? std::string_view(kDefaultTemplate)
                                                         : std::string_view(model.chat_template);
  Result<std::shared_ptr<JinjaTemplate>> made = make_template(source, tokens, limits);
  if (!made.ok()) return std::move(made).error();
  if (fallback) (*made)->warn("the model has no chat template: ChatML is used, which it may not have been taught");
  return std::shared_ptr<const ChatTemplate>(std::move(*made));
}

Result<std::shared_ptr<const ChatTemplate>> load_template(const std::filesystem::path& model,
                                                          std::string_view override_text, const RenderLimits& limits) {
  Result<GgufInfo> info = inspect(model);
  if (!info.ok()) return std::move(info).error();
  return load_template(*info, override_text, limits);
}

}  // namespace kvern::prompt
