#include "pipeline/token_trail.h"

#include <algorithm>
#include <utility>

namespace kvern::pipeline {

void TokenTrail::add(ir::TokenLogprob token, std::size_t text_bytes) {
  if (waiting_.size() == kWaitingMost) waiting_.pop_front();
  // Half a character belongs to the text that follows.
  const std::size_t end = token_end_ + std::max<std::size_t>(text_bytes, 1);
  waiting_.push_back({token_end_, end, std::move(token)});
  token_end_ += text_bytes;
}

void TokenTrail::passed(std::string_view text) {
  // Of text whose tokens were forgotten nothing can be claimed. Cut in large pieces, so that it costs little a byte.
  if (const std::size_t first = waiting_.empty() ? token_end_ : waiting_.front().begin;
      first > text_begin_ + 4 * kWaitingMost) {
    forget_before(std::min(first, text_begin_ + text_.size()));
  }
  last_pass_ = text_begin_ + text_.size();
  text_ += text;
}

std::vector<ir::TokenLogprob> TokenTrail::claim(std::string_view text) {
  // Mostly nothing was dropped. Where something was, it came before: the last place is the right one.
  std::size_t at = text_.starts_with(text) ? 0 : text_.rfind(text);
  if (at == std::string::npos) at = 0;
  forget_before(text_begin_ + at);
  const std::size_t end = text_begin_ + std::min(text.size(), text_.size());
  std::vector<ir::TokenLogprob> tokens;
  while (!waiting_.empty() && waiting_.front().begin < end) {
    tokens.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  forget_before(end);
  return tokens;
}

void TokenTrail::skip() { forget_before(std::max(last_pass_, text_begin_)); }

void TokenTrail::forget_before(std::size_t offset) {
  while (!waiting_.empty() && waiting_.front().end <= offset) waiting_.pop_front();
  text_.erase(0, offset - text_begin_);
  text_begin_ = offset;
}

}  // namespace kvern::pipeline
