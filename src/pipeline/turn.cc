#include "pipeline/turn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::pipeline {

Turn::Turn(TurnOptions options)
    : options_(std::move(options)), detokenizer_(*options_.tokenizer, false), stops_(std::move(options_.stop_strings)) {
  KV_CHECK(options_.parser != nullptr);
}

void Turn::on_engine(const engine::EngineEvent& event, TurnOutput& out) {
  if (done_) return;
  if (const auto* accepted = std::get_if<engine::Accepted>(&event.body)) {
    usage_.prompt_tokens = accepted->prompt_tokens;
    usage_.cached_tokens = accepted->cached_tokens;
    emit(ir::Start{usage_}, out);
  } else if (const auto* output = std::get_if<engine::Output>(&event.body)) {
    on_output(*output, out);
  } else if (const auto* finished = std::get_if<engine::Finished>(&event.body)) {
    usage_.completion_tokens = std::max(usage_.completion_tokens, finished->completion_tokens);
    std::string text;
    detokenizer_.finish(text);
    take_text(text, out);
    if (done_) return;
    std::string held;
#ifndef KVERN_CANARY_LOST_TEXT
    stops_.finish(held);
#endif
    options_.parser->add(held, pieces_);
    take_pieces(out);
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
    take_text(text, out);
  }
  for (const TokenId token : output.tokens) {
    if (done_) return;
    ++usage_.completion_tokens;
    std::string text;
    detokenizer_.add(token, text);
    take_text(text, out);
    if (thought_) ++usage_.reasoning_tokens;
  }
}

void Turn::take_text(const std::string& text, TurnOutput& out) {
  if (text.empty()) return;
  if (stops_.empty() || usage_.completion_tokens <= options_.min_tokens) {
    options_.parser->add(text, pieces_);
    take_pieces(out);
    return;
  }
  std::string safe;
  const auto stop = stops_.add(text, safe);
  options_.parser->add(safe, pieces_);
  take_pieces(out);
  if (stop) {
    out.cancel_engine = true;
    end(ir::FinishReason::kStopString, *stop, true, out);
  }
}

void Turn::take_pieces(TurnOutput& out) {
  for (auto& piece : pieces_) {
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
        if (!piece.text.empty()) emit(ir::BlockDelta{block_, std::move(piece.text)}, out);
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
