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

const char* prompt_field(const ir::Request& request) {
  return std::holds_alternative<std::vector<ir::Message>>(request.prompt) ? "messages" : "prompt";
}

Error too_long(const ir::Request& request, const Model& model, std::size_t tokens, bool at_least) {
  Error error = fail(ErrorCode::kContextLength,
                     fmt::format("This model's maximum context length is {} tokens, and the prompt has {}{} tokens: "
                                 "nothing is left for an answer. Shorten the prompt, or serve with a larger --ctx.",
                                 model.context_tokens, at_least ? "at least " : "", tokens));
  error.param = prompt_field(request);
  return error;
}

/// Blocks are shared inside a tenant, and a client's salt splits that further. Length-prefixed, so no two pairs meet.
std::string cache_namespace(const ir::Request& request) {
  if (request.tenant == "default" && request.hints.cache_salt.empty()) return {};
  return fmt::format("{}:{}{}", request.tenant.size(), request.tenant, request.hints.cache_salt);
}

Result<Encoded> encode_chat(const ir::Request& request, const Model& model) {
  auto spans = model.chat_template->render(request);
  if (!spans) return std::move(spans).error();
  Encoded encoded;
  for (const auto& span : *spans) encoded.text += span.text;
  if (auto error = check_text(request, model, encoded.text.size())) return std::move(*error);
  if (!spans->empty() && spans->back().origin == prompt::Origin::kTemplate) {
    std::string_view tail = spans->back().text;
    const std::size_t end = tail.find_last_not_of(" \t\r\n");
    tail = end == std::string_view::npos ? std::string_view{} : tail.substr(0, end + 1);
    encoded.starts_in_reasoning = tail.ends_with("<think>");
  }
  encoded.tokens = model.tokenizer->encode(*spans);
  return encoded;
}

Result<Encoded> encode(const ir::Request& request, const Model& model) {
  if (std::holds_alternative<std::vector<ir::Message>>(request.prompt)) return encode_chat(request, model);
  Encoded encoded;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    if (auto error = check_text(request, model, text->size())) return std::move(*error);
    encoded.text = *text;
    encoded.tokens = model.tokenizer->encode_text(*text, true);
    return encoded;
  }
  encoded.tokens = std::get<Tokens>(request.prompt);
  for (const TokenId token : encoded.tokens) {
    if (!model.tokenizer->in_range(token)) {
      return invalid(
          "prompt", fmt::format("token id {} is outside the vocabulary (0 to {})", token, model.tokenizer->size() - 1));
    }
  }
  for (const TokenId token : encoded.tokens) encoded.text += model.tokenizer->piece(token, true);
  return encoded;
}

}  // namespace

std::optional<Error> check_text(const ir::Request& request, const Model& model, std::size_t bytes) {
  const std::size_t piece = model.tokenizer->piece_bytes_max();
  if (piece == 0 || bytes / piece < model.context_tokens) return std::nullopt;
  return too_long(request, model, bytes / piece, true);
}

Result<Tokens> prompt_tokens(const ir::Request& request, const Model& model) {
  auto encoded = encode(request, model);
  if (!encoded) return std::move(encoded).error();
  return std::move(encoded->tokens);
}

Result<Prepared> prepare(const ir::Request& request, const Model& model) {
  auto encoded = encode(request, model);
  if (!encoded) return std::move(encoded).error();
  const std::size_t prompt = encoded->tokens.size();
  if (prompt == 0) return invalid("prompt", "the prompt is empty: at least one token is needed");
  if (prompt >= model.context_tokens) return too_long(request, model, prompt, false);
  const auto left = static_cast<std::uint32_t>(model.context_tokens - prompt);
  const std::uint32_t max_tokens = std::min(request.stopping.max_tokens.value_or(left), left);
  if (request.stopping.min_tokens > max_tokens) {
    return invalid("min_tokens", fmt::format("min_tokens is {}, but at most {} tokens can be generated",
                                             request.stopping.min_tokens, max_tokens));
  }
  for (const TokenId token : request.stopping.token_ids) {
    if (!model.tokenizer->in_range(token)) {
      return invalid("stop_token_ids", fmt::format("token id {} is outside the vocabulary (0 to {})", token,
                                                   model.tokenizer->size() - 1));
    }
  }
  Prepared prepared;
  prepared.starts_in_reasoning = encoded->starts_in_reasoning;
  auto& generate = prepared.generate;
  generate.id = request.id;
  generate.prompt = std::move(encoded->tokens);
  generate.prompt_text = std::move(encoded->text);
  generate.max_tokens = max_tokens;
  generate.min_tokens = request.stopping.min_tokens;
  generate.stop_token_ids = request.stopping.token_ids;
  generate.ignore_eos = request.stopping.ignore_eos;
  generate.sampling = request.sampling;
  generate.priority = request.hints.priority;
  generate.cache_namespace = cache_namespace(request);
  return prepared;
}

std::size_t prompt_bytes(const ir::Request& request) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return text->size();
  if (const auto* tokens = std::get_if<Tokens>(&request.prompt)) return tokens->size();
  std::size_t bytes = 0;
  for (const auto& message : std::get<std::vector<ir::Message>>(request.prompt)) {
    for (const auto& block : message.blocks) {
      if (const auto* text = std::get_if<ir::Text>(&block.content)) bytes += text->text.size();
      if (const auto* thinking = std::get_if<ir::Thinking>(&block.content)) bytes += thinking->text.size();
      if (const auto* call = std::get_if<ir::ToolCall>(&block.content)) bytes += call->arguments.size();
      if (const auto* result = std::get_if<ir::ToolResult>(&block.content)) {
        for (const auto& part : result->parts) bytes += part.text.size();
      }
    }
    bytes += 64;  // a message costs the template some work whatever its size
  }
  for (const auto& tool : request.tools) bytes += tool.description.size() + tool.parameters.size();
  return bytes;
}

}  // namespace kvern::pipeline
