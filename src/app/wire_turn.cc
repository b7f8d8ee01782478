#include "app/wire_turn.h"

#include <algorithm>
#include <utility>

#include "base/json_writer.h"

namespace kvern::app {
namespace {

api::WireAnswerOptions answer_options(const api::WireCall& call) {
  return {call.stream,
          call.include_usage,
          call.continuous_usage,
          call.return_token_ids,
          call.request.logprobs.has_value(),
          call.early_usage};
}

}  // namespace

WireTurn::WireTurn(const prompt::Tokenizer& tokenizer, const api::WireCall& call, api::WireHead head, Tokens prompt)
    : tokenizer_(tokenizer),
      tokens_as_ids_(call.tokens_as_ids),
      return_token_ids_(call.return_token_ids),
      include_stop_string_(call.include_stop_string),
      min_tokens_(call.request.stopping.min_tokens),
      stop_token_ids_(call.request.stopping.token_ids),
      detokenizer_(tokenizer, !call.skip_special_tokens),
      stops_(call.request.stopping.strings),
      answer_(std::move(head), answer_options(call), call.return_token_ids ? std::move(prompt) : Tokens()) {}

void WireTurn::take(const engine::EngineEvent& event, std::string& out) {
  if (done_) return;
  if (const auto* accepted = std::get_if<engine::Accepted>(&event.body)) {
    usage_.prompt_tokens = accepted->prompt_tokens;
    usage_.cached_tokens = accepted->cached_tokens;
  } else if (const auto* output = std::get_if<engine::Output>(&event.body)) {
    on_output(*output, out);
  } else if (const auto* finished = std::get_if<engine::Finished>(&event.body)) {
    on_finished(*finished, out);
  } else {
    failure_ = std::get<engine::Failed>(event.body).error;
    done_ = true;
  }
}

void WireTurn::flush(std::string& out) {
  if (held_ && !done_) emit({}, {}, out);
}

void WireTurn::on_output(const engine::Output& output, std::string& out) {
  flush(out);
  held_.emplace();
  std::string text;
  if (!output.text.empty()) {
    // An engine that speaks text (scripted `chunks`): its tokens are made here, markup included.
    const prompt::Span span{output.text, prompt::Origin::kTemplate};
    if (return_token_ids_) held_->tokens = tokenizer_.encode({&span, 1});
    usage_.completion_tokens += std::max<std::uint32_t>(1, static_cast<std::uint32_t>(held_->tokens.size()));
    detokenizer_.add_bytes(output.text, text);
    if (add_text(text, out)) return;
  }
  for (std::size_t i = 0; i < output.tokens.size(); ++i) {
    const TokenId token = output.tokens[i];
    ++usage_.completion_tokens;
    held_->tokens.push_back(token);
    if (i < output.logprobs.size()) held_->logprobs.push_back(wire_logprob(token, output.logprobs[i]));
    text.clear();
    detokenizer_.add(token, text);
    if (add_text(text, out)) return;
  }
}

bool WireTurn::add_text(const std::string& text, std::string& out) {
  if (text.empty()) return false;
  if (stops_.empty() || usage_.completion_tokens <= min_tokens_) {
    held_->text += text;
    return false;
  }
  const auto stop = stops_.add(text, held_->text);
  if (!stop) return false;
  if (include_stop_string_) held_->text += *stop;
  std::string reason;
  json::append_quoted(reason, *stop);
  cancel_engine_ = true;
  end("stop", reason, out);
  return true;
}

void WireTurn::on_finished(const engine::Finished& finished, std::string& out) {
  usage_.completion_tokens = std::max(usage_.completion_tokens, finished.completion_tokens);
  if (finished.cached_tokens) usage_.cached_tokens = finished.cached_tokens;
  if (!held_) held_.emplace();
  std::string text;
  detokenizer_.finish(text);
  if (add_text(text, out)) return;
  stops_.finish(held_->text);
  cut_ = finished.cause == engine::StopCause::kLength;
  // The engine does not say which token stopped it; where only one could, it is known.
  const bool is_named = finished.cause == engine::StopCause::kStopToken && stop_token_ids_.size() == 1;
  end(cut_ ? "length" : "stop", is_named ? std::to_string(stop_token_ids_.front()) : std::string(), out);
}

void WireTurn::emit(std::string_view finish_reason, const std::string& stop_reason, std::string& out) {
  const Held held = std::move(*held_);
  held_.reset();
  answer_.piece({held.text, held.tokens, held.logprobs, finish_reason, stop_reason}, usage_, out);
}

void WireTurn::end(std::string_view finish_reason, const std::string& stop_reason, std::string& out) {
  emit(finish_reason, stop_reason, out);
  answer_.end(usage_, out);
  done_ = true;
}

std::string WireTurn::token_name(TokenId token) const {
  if (tokens_as_ids_) return "token_id:" + std::to_string(token);
  std::string text;
  prompt::Detokenizer one(tokenizer_, true);
  one.add(token, text);
  one.finish(text);  // a part of a character is shown as U+FFFD
  return text;
}

api::WireLogprob WireTurn::wire_logprob(TokenId token, const engine::TokenLogprob& logprob) const {
  api::WireLogprob wire{token_name(token), logprob.logprob, {}};
  const auto has = [&wire](const std::string& name) {
    return std::ranges::any_of(wire.top, [&name](const auto& entry) { return entry.first == name; });
  };
  for (const auto& [id, value] : logprob.top) {
    if (std::string name = token_name(id); !has(name)) wire.top.emplace_back(std::move(name), value);
  }
  // vLLM names the chosen one too, wherever it ranks.
  if (!has(wire.token)) wire.top.insert(wire.top.begin(), {wire.token, wire.logprob});
  return wire;
}

}  // namespace kvern::app
