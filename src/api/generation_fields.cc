#include "api/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/extension.h"

namespace kvern::api {
namespace {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= 64 && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// A token id as a name in an object: decimal digits without leading zeros, so that no id stands there twice.
std::optional<TokenId> token_of(std::string_view name) {
  TokenId token = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), token);
  if (fault != std::errc{} || end != name.data() + name.size() || token < 0) return std::nullopt;
  if (name != std::to_string(token)) return std::nullopt;
  return token;
}

void decode_logit_bias(const Fields& fields, std::vector<std::pair<TokenId, float>>& out) {
  const auto bias = fields.object("logit_bias");
  if (!bias) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path("logit_bias");
  if (!decoding.within(Limit::kLogitBias, bias->size(), path)) return;
  for (const auto& [key, value] : bias->children()) {
    const std::string name = shown(key);
    const Path place = member_of(path, name);
    const auto token = token_of(key);
    if (!token) return decoding.fail(place, "must be named by a token id: an integer from 0 to 2147483647");
    if (!value.is(json::Kind::kNumber)) return decoding.wrong_type(place, "a number", value.kind());
    const double number = value.number();
    if (number < -100 || number > 100) return decoding.fail(place, "must be between -100 and 100");
    out.emplace_back(*token, static_cast<float>(number));
  }
}

/// What the renderer binds itself; an option of that name would change the conversation behind kvern's back.
constexpr std::array<std::string_view, 18> kReserved{"messages",
                                                     "tools",
                                                     "tool_choice",
                                                     "documents",
                                                     "chat_template",
                                                     "add_generation_prompt",
                                                     "continue_final_message",
                                                     "bos_token",
                                                     "eos_token",
                                                     "pad_token",
                                                     "unk_token",
                                                     "tokenize",
                                                     "return_dict",
                                                     "strftime_now",
                                                     "conversation",
                                                     "raise_exception",
                                                     "namespace",
                                                     "range"};

}  // namespace

bool is_tool_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '"' || c == '\\' || c == '<' || c == '>';
  });
}

void decode_stop(const Fields& fields, std::string_view name, std::vector<std::string>& out) {
  const auto value = fields.find(name);
  if (!value) return;
  Decoding& decoding = fields.decoding();
  const Path path = fields.path(name);
  const auto add = [&](json::Value item, const Path& place) {
    if (!item.is(json::Kind::kString)) return decoding.wrong_type(place, "a string", item.kind());
    std::string text = item.string();
    if (text.empty()) return decoding.fail(place, "must not be empty");
    if (decoding.within(Limit::kStopBytes, text.size(), place)) out.push_back(std::move(text));
  };
  if (value->is(json::Kind::kString)) return add(*value, path);
  if (!value->is(json::Kind::kArray))
    return decoding.wrong_type(path, "a string or an array of strings", value->kind());
  if (!decoding.within(Limit::kStopStrings, value->size(), path)) return;
  std::size_t index = 0;
  for (const auto& child : value->children()) add(child.value, element_of(path, index++));
}

StreamOptions decode_stream_options(const Fields& fields) {
  StreamOptions out;
  fields.boolean("stream", out.stream);
  if (const auto options = fields.object("stream_options")) {
    const Path path = fields.path("stream_options");
    if (!out.stream) fields.decoding().fail(path, "goes only with `stream`: true");
    const Fields inner(*options, path, fields.decoding());
    inner.boolean("include_usage", out.include_usage);
    bool ignored = false;
    inner.boolean("include_obfuscation", ignored);
  }
  return out;
}

void decode_choices(const Fields& fields, std::uint32_t& out) {
  fields.integer("n", 1, static_cast<std::int64_t>(fields.decoding().limits()[Limit::kChoices]), out);
}

void decode_sampling(const Fields& fields, ir::Sampling& out) {
  fields.number("temperature", 0, 2, out.temperature);
  fields.number("top_p", 0, 1, out.top_p, /*open=*/true);
  fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), out.top_k);
  out.top_k = std::max(out.top_k, 0);  // -1 is another common spelling of "off"
  fields.number("min_p", 0, 1, out.min_p);
  fields.number("presence_penalty", -2, 2, out.presence_penalty);
  fields.number("frequency_penalty", -2, 2, out.frequency_penalty);
  fields.number("repetition_penalty", 0.01, 10, out.repetition_penalty);
  std::int64_t seed = 0;
  if (fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), seed))
    out.seed = static_cast<std::uint64_t>(seed);
  decode_logit_bias(fields, out.logit_bias);
}

void decode_stopping(const Fields& fields, ir::Stopping& out) {
  Decoding& decoding = fields.decoding();
  const auto most = static_cast<std::int64_t>(decoding.limits()[Limit::kMaxTokens]);
  // The newer name wins where a client sends both.
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    std::uint32_t tokens = 0;
    if (fields.integer(name, 1, most, tokens)) out.max_tokens = tokens;
  }
  fields.integer("min_tokens", 0, static_cast<std::int64_t>(decoding.limits()[Limit::kMinTokens]), out.min_tokens);
  if (out.max_tokens && out.min_tokens > *out.max_tokens)
    decoding.fail(fields.path("min_tokens"),
                  fmt::format("({}) is more than the most tokens asked for ({})", out.min_tokens, *out.max_tokens));
  fields.boolean("ignore_eos", out.ignore_eos);
  decode_stop(fields, "stop", out.strings);
  if (const auto ids = fields.array("stop_token_ids"))
    decode_token_ids(*ids, Limit::kStopTokenIds, fields.path("stop_token_ids"), decoding, out.token_ids);
}

void check_response_format(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  const auto format = fields.object("response_format");
  if (!format) return;
  const Path path = fields.path("response_format");
  const Fields inner(*format, path, decoding);
  std::string type;
  inner.required("type");
  if (!inner.string("type", type) || type == "text") return;
  if (type == "json_object" || type == "json_schema") return decoding.unsupported(inner.path("type"), "only text");
  decoding.fail(inner.path("type"), fmt::format("must be text, json_object or json_schema, not {}", shown(type)));
}

void decode_hints(const Fields& fields, ir::Request& request, std::vector<std::string>& left_out) {
  fields.string("prompt_cache_key", Limit::kIdBytes, request.session.id);
  decode_extension(fields, request, left_out);
  if (const auto priority = decode_priority(fields, "priority")) request.hints.priority = *priority;
  fields.string("cache_salt", Limit::kIdBytes, request.hints.cache_salt);
}

void check_labels(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  std::string ignored;
  for (const std::string_view name : {"user", "safety_identifier", "service_tier"})
    fields.string(name, Limit::kIdBytes, ignored);
  const auto metadata = fields.object("metadata");
  if (!metadata) return;
  const Path path = fields.path("metadata");
  if (!decoding.within(Limit::kMetadataEntries, metadata->size(), path)) return;
  for (const auto& [key, value] : metadata->children()) {
    if (!decoding.within(Limit::kMetadataKeyBytes, key.size(), path)) return;
    const Path place = member_of(path, key);
    if (value.is(json::Kind::kNull)) continue;  // Anthropic's SDKs send `user_id` so
    if (!value.is(json::Kind::kString)) return decoding.wrong_type(place, "a string", value.kind());
    if (!decoding.within(Limit::kMetadataValueBytes, value.string().size(), place)) return;
  }
}

void decode_token_ids(json::Value array, Limit limit, const Path& path, Decoding& decoding, Tokens& out) {
  const std::uint32_t count = array.size();
  if (!decoding.within(limit, count, path)) return;
  out.reserve(count);
  std::size_t index = 0;
  for (const auto& child : array.children()) {
    const Path place = element_of(path, index++);
    if (!child.value.is(json::Kind::kNumber)) return decoding.wrong_type(place, "a token id", child.value.kind());
    const auto id = child.value.integer();
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max())
      return decoding.fail(place, "must be a token id: an integer from 0 to 2147483647");
    out.push_back(static_cast<TokenId>(*id));
  }
}

void decode_template_options(const Fields& fields, std::map<std::string, std::string>& out) {
  Decoding& decoding = fields.decoding();
  if (fields.has("chat_template"))
    decoding.fail(fields.path("chat_template"), "is never taken from a request; the model's own is used");
  const auto options = fields.object("chat_template_kwargs");
  if (!options) return;
  const Path path = fields.path("chat_template_kwargs");
  if (!decoding.within(Limit::kTemplateOptions, options->size(), path)) return;
  for (const auto& [key, value] : options->children()) {
    const std::string name = shown(key);
    const Path place = member_of(path, name);
    if (!is_identifier(key)) return decoding.fail(place, "is no name of an option");
    if (std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end())
      return decoding.fail(place, "is not for a request to set");
    if (value.is(json::Kind::kArray) || value.is(json::Kind::kObject))
      return decoding.wrong_type(place, "a string, a number, a boolean or null", value.kind());
    if (!decoding.within(Limit::kTemplateOptionBytes, value.raw().size(), place)) return;
    out.emplace(key, value.raw());
  }
}

}  // namespace kvern::api
