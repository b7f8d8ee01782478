#include "pipeline/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace kvern::pipeline {
namespace {

struct Encoded {
  Tokens tokens;
  std::string text;
  bool starts_in_reasoning = false;
};

/// The prompt at fault, as the client knows it.
std::string prompt_field(const ir::Request& request, std::size_t index) {
  if (std::holds_alternative<std::vector<ir::Message>>(request.prompt)) return "messages";
  return request.more_prompts.empty() ? "prompt" : fmt::format("prompt[{}]", index);
}

Error too_long(std::string field, const Model& model, std::size_t tokens, bool at_least) {
  // Clients know an overflow by its words and read the numbers: OpenAI's say "maximum context length", Anthropic's
  // "prompt is too long: N tokens > M maximum".
  Error error =
      fail(ErrorCode::kContextLength,
           fmt::format(
               "prompt is too long: {0} tokens > {1} maximum. This model's maximum context length is {1} tokens, and "
               "the prompt has {2}{0} tokens: nothing is left for an answer. Shorten the prompt{3}{4}.",
               tokens, model.context_tokens, at_least ? "at least " : "", model.longer_context.empty() ? "" : ", or ",
               model.longer_context));
  error.param = std::move(field);
  return error;
}

/// A token id that the vocabulary does not have, named with the field it stood in.
std::optional<Error> check_token(TokenId token, const std::string& field, const Model& model) {
  if (model.tokenizer->in_range(token)) return std::nullopt;
  return invalid(field, fmt::format("{}: token id {} is outside the vocabulary (0 to {})", field, token,
                                    model.tokenizer->size() - 1));
}

/// What no model here can read yet; empty for what every model can.
struct UnreadableMedia {
  std::string_view operator()(const ir::Image&) const { return "an image"; }
  std::string_view operator()(const ir::Document& block) const { return block.data.empty() ? "" : "a file"; }
  std::string_view operator()(const ir::ToolResult& block) const {
    for (const auto& part : block.parts) {
      if (const auto what = std::visit(*this, part); !what.empty()) return what;
    }
    return {};
  }
  std::string_view operator()(const auto&) const { return {}; }
};

/// Models are text models so far: an image or a file of bytes would silently be missing from the prompt.
std::optional<Error> check_media(const ir::Request& request, const Model& model) {
  for (const auto& message : std::get<std::vector<ir::Message>>(request.prompt)) {
    for (const auto& block : message.blocks) {
      const std::string_view what = std::visit(UnreadableMedia{}, block.content);
      if (what.empty()) continue;
      return invalid("messages", fmt::format("messages: the model {} reads text only, and the conversation holds {}. "
                                             "Leave it out, or send what it says as text.",
                                             model.name, what));
    }
  }
  return std::nullopt;
}

Result<Encoded> encode_chat(const ir::Request& request, const Model& model) {
  if (auto error = check_media(request, model)) return std::move(*error);
  auto spans = model.chat_template->render(request);
  if (!spans) return std::move(spans).error();
  Encoded encoded;
  for (const auto& span : *spans) encoded.text += span.text;
  if (auto error = check_text("messages", model, encoded.text.size())) return std::move(*error);
  if (!spans->empty() && spans->back().origin == prompt::Origin::kTemplate) {
    std::string_view tail = spans->back().text;
    const std::size_t end = tail.find_last_not_of(" \t\r\n");
    tail = end == std::string_view::npos ? std::string_view{} : tail.substr(0, end + 1);
    encoded.starts_in_reasoning = tail.ends_with("<think>");
  }
  encoded.tokens = model.tokenizer->encode(*spans, cache_namespace(request));
  return encoded;
}

/// Text or token ids.
Result<Encoded> encode_raw(const ir::Prompt& prompt, const std::string& field, const std::string& name_space,
                           const Model& model) {
  Encoded encoded;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    if (auto error = check_text(field, model, text->size())) return std::move(*error);
    encoded.text = *text;
    encoded.tokens = model.tokenizer->encode_text(*text, true, name_space);
    return encoded;
  }
  encoded.tokens = std::get<Tokens>(prompt);
  for (const TokenId token : encoded.tokens) {
    if (auto error = check_token(token, field, model)) return std::move(*error);
  }
  for (const TokenId token : encoded.tokens) encoded.text += model.tokenizer->piece(token, true);
  return encoded;
}

Result<Encoded> encode(const ir::Request& request, std::size_t index, const Model& model) {
  const ir::Prompt& prompt = index == 0 ? request.prompt : request.more_prompts[index - 1];
  if (std::holds_alternative<std::vector<ir::Message>>(prompt)) return encode_chat(request, model);
  return encode_raw(prompt, prompt_field(request, index), cache_namespace(request), model);
}

std::optional<Error> check_token_fields(const ir::Request& request, const Model& model) {
  for (const TokenId token : request.stopping.token_ids) {
    if (auto error = check_token(token, "stop_token_ids", model)) return error;
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (auto error = check_token(token, "logit_bias", model)) return error;
  }
  return std::nullopt;
}

/// What every choice of a prompt asks for.
Result<engine::GenerateRequest> generate_request(const ir::Request& request, std::size_t index, Encoded encoded,
                                                 const Model& model) {
  const std::size_t prompt = encoded.tokens.size();
  const std::string field = prompt_field(request, index);
  if (prompt == 0) return invalid(field, "the prompt is empty: at least one token is needed");
  if (prompt >= model.context_tokens) return too_long(field, model, prompt, false);
  const auto left = static_cast<std::uint32_t>(model.context_tokens - prompt);
  const std::uint32_t max_tokens = std::min(request.stopping.max_tokens.value_or(left), left);
  if (request.stopping.min_tokens > max_tokens) {
    return invalid("min_tokens", fmt::format("min_tokens is {}, but at most {} tokens can be generated",
                                             request.stopping.min_tokens, max_tokens));
  }
  engine::GenerateRequest generate;
  generate.id = request.id;
  generate.prompt = std::move(encoded.tokens);
  generate.prompt_text = std::move(encoded.text);
  generate.max_tokens = max_tokens;
  generate.min_tokens = request.stopping.min_tokens;
  generate.stop_token_ids = request.stopping.token_ids;
  generate.ignore_eos = request.stopping.ignore_eos;
  generate.sampling = request.sampling;
  generate.priority = request.hints.priority;
  generate.logprobs = request.logprobs;
  generate.cache_namespace = cache_namespace(request);
  generate.worker = request.hints.worker;
  generate.worker_rank = request.hints.worker_rank;
  return generate;
}

/// Each choice has a copy of the prompt: it is the engine's to keep.
void add_choices(const ir::Request& request, engine::GenerateRequest first, std::vector<engine::GenerateRequest>& out) {
  const std::size_t at = out.size();
  out.push_back(std::move(first));
  for (std::uint32_t choice = 1; choice < request.choices; ++choice) {
    auto& copy = out.emplace_back(out[at]);
    if (copy.sampling.seed) *copy.sampling.seed += choice;
  }
}

Error too_many(const ir::Request& request) {
  const char* field = request.choices > 1 ? "n" : "prompt";
  return invalid(field, fmt::format("{}: over all choices the prompts have more than {} tokens", field,
                                    kPromptTokensOfAllChoicesMost));
}

/// A message or a prompt costs some work whatever its size.
constexpr std::size_t kMessageBytes = 64;

std::size_t raw_bytes(const ir::Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  if (const auto* tokens = std::get_if<Tokens>(&prompt)) return tokens->size();
  return 0;
}

/// What a block adds to the prompt, roughly.
struct RenderedBytes {
  std::size_t operator()(const ir::Text& block) const { return block.text.size(); }
  std::size_t operator()(const ir::Thinking& block) const { return block.text.size(); }
  std::size_t operator()(const ir::RedactedThinking&) const { return 0; }
  std::size_t operator()(const ir::Image&) const { return 0; }
  std::size_t operator()(const ir::Document& block) const { return block.text.size(); }
  std::size_t operator()(const ir::ToolCall& block) const { return block.arguments.size(); }
  std::size_t operator()(const ir::ToolResult& block) const {
    std::size_t bytes = 0;
    for (const auto& part : block.parts) bytes += std::visit(*this, part);
    return bytes;
  }
};

std::size_t message_bytes(const ir::Message& message) {
  std::size_t bytes = 0;
  for (const auto& block : message.blocks) {
    bytes += std::visit(RenderedBytes{}, block.content);
  }
  return bytes;
}

}  // namespace

std::optional<Error> check_text(const std::string& field, const Model& model, std::size_t bytes) {
  const std::size_t piece = model.tokenizer->piece_bytes_max();
  if (piece == 0 || bytes / piece < model.context_tokens) return std::nullopt;
  return too_long(field, model, bytes / piece, true);
}

// Length-prefixed, so no two pairs meet.
std::string cache_namespace(const ir::Request& request) {
  if (request.tenant == "default" && request.hints.cache_salt.empty()) return {};
  return fmt::format("{}:{}{}", request.tenant.size(), request.tenant, request.hints.cache_salt);
}

Result<Tokens> prompt_tokens(const ir::Request& request, const Model& model) {
  auto encoded = encode(request, 0, model);
  if (!encoded) return std::move(encoded).error();
  return std::move(encoded->tokens);
}

Result<Prepared> prepare(const ir::Request& request, const Model& model) {
  if (auto error = check_token_fields(request, model)) return std::move(*error);
  Prepared prepared;
  prepared.generate.reserve(request.answers());
  std::size_t tokens_of_all = 0;
  for (std::size_t index = 0; index <= request.more_prompts.size(); ++index) {
    auto encoded = encode(request, index, model);
    if (!encoded) return std::move(encoded).error();
    prepared.starts_in_reasoning = encoded->starts_in_reasoning;
    auto generate = generate_request(request, index, std::move(*encoded), model);
    if (!generate) return std::move(generate).error();
    tokens_of_all += generate->prompt.size() * request.choices;
    if (tokens_of_all > kPromptTokensOfAllChoicesMost) return too_many(request);
    add_choices(request, std::move(*generate), prepared.generate);
  }
  return prepared;
}

std::size_t prompt_bytes(const ir::Request& request) {
  std::size_t bytes = raw_bytes(request.prompt);
  for (const auto& prompt : request.more_prompts) bytes += raw_bytes(prompt) + kMessageBytes;
  if (const auto* messages = std::get_if<std::vector<ir::Message>>(&request.prompt)) {
    for (const auto& message : *messages) bytes += message_bytes(message) + kMessageBytes;
  }
  for (const auto& tool : request.tools) bytes += tool.description.size() + tool.parameters.size();
  return bytes;
}

}  // namespace kvern::pipeline
