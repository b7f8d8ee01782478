#include "ir/event_grammar.h"

namespace kvern::ir {
namespace {

std::optional<std::string> check_usage(const Usage& usage) {
  if (usage.cached_tokens.value_or(0) > usage.prompt_tokens) return "more cached than prompt tokens";
  if (usage.reasoning_tokens > usage.completion_tokens) return "more reasoning than completion tokens";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> EventGrammar::accept(const Event& event) {
  if (state_ == State::kDone) return "an event after the end of the stream";
  if (const auto* start = std::get_if<Start>(&event)) {
    if (state_ != State::kBeforeStart) return "a second start";
    if (auto fault = check_usage(start->usage)) return fault;
    state_ = State::kBetweenBlocks;
    return std::nullopt;
  }
  if (std::holds_alternative<Failure>(event)) {
    state_ = State::kDone;
    return std::nullopt;
  }
  if (state_ == State::kBeforeStart) return "the stream does not begin with a start";
  if (const auto* begin = std::get_if<BlockStart>(&event)) {
    if (state_ == State::kInBlock) return "a block starts inside another";
    if (begin->index != next_index_) return "block index out of order";
    if ((begin->kind == BlockKind::kToolCall) == begin->name.empty()) return "a name and a tool call go together";
    state_ = State::kInBlock;
    return std::nullopt;
  }
  if (const auto* delta = std::get_if<BlockDelta>(&event)) {
    if (state_ != State::kInBlock || delta->index != next_index_) return "a delta outside its block";
    if (delta->text.empty()) return "an empty delta";
    return std::nullopt;
  }
  if (const auto* stop = std::get_if<BlockStop>(&event)) {
    if (state_ != State::kInBlock || stop->index != next_index_) return "a stop without its block";
    state_ = State::kBetweenBlocks;
    ++next_index_;
    return std::nullopt;
  }
  const auto& end = std::get<End>(event);
  if (state_ == State::kInBlock) return "the stream ends inside a block";
  if ((end.reason == FinishReason::kStopString) == end.stop_string.empty())
    return "a stop string and its reason go together";
  if (auto fault = check_usage(end.usage)) return fault;
  state_ = State::kDone;
  return std::nullopt;
}

}  // namespace kvern::ir
