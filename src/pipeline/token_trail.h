// Which tokens a piece of visible text came from. Between a token and its text stand three that hold back: the
// detokenizer (half a character), the stop matcher, and the parser, which also drops markers and white space around
// them. So tokens wait here until the parser gives out text that they are part of; those whose text is dropped or is no
// visible text are forgotten.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ir/event.h"

namespace kvern::pipeline {

/// One answer. O(bytes) over its whole length, as text is seldom held back.
class TokenTrail {
 public:
  /// Most tokens that wait; beyond it the oldest lose their place in the list. Only a call that turns out to be text
  /// after all, or broken JSON, holds back more than a stop string's worth.
  static constexpr std::size_t kWaitingMost = 4096;

  /// A token, before the text that it made complete: `text_bytes` of it, 0 for half a character.
  void add(ir::TokenLogprob token, std::size_t text_bytes);
  /// Text of a token that nothing is known of.
  void add_unknown(std::size_t text_bytes) { token_end_ += text_bytes; }
  /// Text that the parser was given, in order; it may be some tokens behind.
  void passed(std::string_view text);
  /// The parser gave out `text` as visible text. Returns the tokens it is the first to show anything of, and forgets
  /// those before.
  std::vector<ir::TokenLogprob> claim(std::string_view text);
  /// The parser gave out reasoning or a call: what came before the text passed last is forgotten.
  void skip();

 private:
  struct Waiting {
    std::size_t begin;  // offsets in the answer's text
    std::size_t end;
    ir::TokenLogprob token;
  };
  void forget_before(std::size_t offset);

  std::deque<Waiting> waiting_;
  std::size_t token_end_ = 0;
  std::string text_;            // passed and neither claimed nor forgotten
  std::size_t text_begin_ = 0;  // its offset
  std::size_t last_pass_ = 0;   // offset of the text passed last
};

}  // namespace kvern::pipeline
