#include "pipeline/turn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::pipeline {

Turn::Turn(TurnOptions options)
    : options_(std::move(options)), detokenizer_(*options_.tokenizer, false), stops_(std::move(options_.stop_strings)) {
  KV_CHECK(options_.parser != nullptr);
  if (options_.logprobs) trail_.emplace();
}

void Turn::on_engine(const engine::EngineEvent& event, TurnOutput& out) {
  if (done_) return;
  if (const auto* accepted = std::get_if<engine::Accepted>(&event.body)) {
    usage_.prompt_tokens = accepted->prompt_tokens;
    usage_.cached_tokens = accepted->cached_tokens;
    emit(ir::Start{usage_, accepted->worker}, out);
  } else if (const auto* output = std::get_if<engine::Output>(&event.body)) {
    on_output(*output, out);
  } else if (const auto* finished = std::get_if<engine::Finished>(&event.body)) {
    usage_.completion_tokens = std::max(usage_.completion_tokens, finished->completion_tokens);
    if (finished->cached_tokens) usage_.cached_tokens = finished->cached_tokens;
    std::string text;
    detokenizer_.finish(text);
    take_text(text, out);
    if (done_) return;
    std::string held;
#ifndef KVERN_CANARY_LOST_TEXT
    stops_.finish(held);
#endif
    parse(held, out);
    const bool cut = finished->cause == engine::StopCause::kLength;
    end(cut ? ir::FinishReason::kLength : ir::FinishReason::kStop, {}, !cut, out);
  } else {
    fail(std::get<engine::Failed>(event.body).error, out);
  }
}

void Turn::on_output(const engine::Output& output, TurnOutput& out) {
  if (!output.text.empty()) {
    ++usage_.completion_tokens;
    std::string text;
    detokenizer_.add_bytes(output.text, text);
    if (trail_) trail_->add_unknown(text.size());
    take_text(text, out);
  }
  const bool known = trail_ && output.logprobs.size() == output.tokens.size();
  for (std::size_t i = 0; i < output.tokens.size(); ++i) {
    if (done_) return;
    ++usage_.completion_tokens;
    std::string text;
    detokenizer_.add(output.tokens[i], text);
    if (trail_) note_token(output.tokens[i], known ? &output.logprobs[i] : nullptr, text.size());
    take_text(text, out);
    if (thought_) ++usage_.reasoning_tokens;
  }
}

void Turn::note_token(TokenId token, const engine::TokenLogprob* logprob, std::size_t text_bytes) {
  std::string bytes = options_.tokenizer->piece(token, false);
  // A control token shows nothing, so there is no text to tell its probability with.
  if (logprob == nullptr || bytes.empty()) return trail_->add_unknown(text_bytes);
  ir::TokenLogprob noted{std::move(bytes), logprob->logprob, {}};
  noted.top.reserve(logprob->top.size());
  for (const auto& [id, value] : logprob->top) {
    if (options_.tokenizer->in_range(id)) noted.top.push_back({options_.tokenizer->piece(id, true), value});
  }
  trail_->add(std::move(noted), text_bytes);
}

void Turn::parse(std::string_view text, TurnOutput& out) {
  if (text.empty()) return;
  if (trail_) trail_->passed(text);
  options_.parser->add(text, pieces_);
  take_pieces(out);
}

void Turn::take_text(const std::string& text, TurnOutput& out) {
  if (text.empty()) return;
  if (stops_.empty() || usage_.completion_tokens <= options_.min_tokens) return parse(text, out);
  std::string safe;
  const auto stop = stops_.add(text, safe);
  parse(safe, out);
  if (stop) {
    out.cancel_engine = true;
    end(ir::FinishReason::kStopString, *stop, true, out);
  }
}

void Turn::take_pieces(TurnOutput& out) {
  for (auto& piece : pieces_) {
    if (trail_ && piece.kind != ir::BlockKind::kText) trail_->skip();
    switch (piece.step) {
      case parser::Piece::Step::kStart:
        KV_CHECK(!open_);
        open_ = piece.kind;
        thought_ = piece.kind == ir::BlockKind::kThinking;
        if (piece.kind == ir::BlockKind::kToolCall) {
          if (piece.call_id.empty()) {
            // Unique over requests and calls, in the form the field uses.
            piece.call_id = "call_" + hex64(options_.id.value) + hex64(calls_).substr(12);
          }
          ++calls_;
        }
        emit(ir::BlockStart{block_, piece.kind, std::move(piece.call_id), std::move(piece.name)}, out);
        break;
      case parser::Piece::Step::kDelta:
        if (!piece.text.empty()) emit(delta_of(piece), out);
        break;
      case parser::Piece::Step::kStop:
        KV_CHECK(open_);
        open_.reset();
        thought_ = false;
        emit(ir::BlockStop{block_++}, out);
        break;
    }
  }
  pieces_.clear();
}

ir::BlockDelta Turn::delta_of(parser::Piece& piece) {
  ir::BlockDelta delta{block_, std::move(piece.text)};
  if (trail_ && piece.kind == ir::BlockKind::kText) delta.logprobs = trail_->claim(delta.text);
  return delta;
}

void Turn::end(ir::FinishReason reason, std::string stop_string, bool complete, TurnOutput& out) {
  options_.parser->finish(complete, pieces_);
  take_pieces(out);
  KV_CHECK(!open_);
  if (reason != ir::FinishReason::kLength && calls_ > 0) {
    reason = ir::FinishReason::kToolCalls;
    stop_string.clear();
  }
  usage_.reasoning_tokens = std::min(usage_.reasoning_tokens, usage_.completion_tokens);
  emit(ir::End{reason, std::move(stop_string), usage_}, out);
  done_ = true;
}

void Turn::fail(Error error, TurnOutput& out) {
  if (done_) return;
  emit(ir::Failure{std::move(error)}, out);
  done_ = true;
}

void Turn::emit(ir::Event event, TurnOutput& out) {
#ifndef NDEBUG
  const auto fault = grammar_.accept(event);
  KV_CHECK(!fault);
#endif
  out.events.push_back(std::move(event));
}

}  // namespace kvern::pipeline
