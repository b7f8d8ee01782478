// Token ids to text, one stream at a time. UTF-8 is never split: bytes of an unfinished character wait (at most 3) for
// the next token; bytes that can no longer become a character turn into U+FFFD, at the end of the stream as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/token.h"
#include "prompt/tokenizer.h"

namespace kvern::prompt {

class Detokenizer {
 public:
  /// `tokenizer` outlives this. With `special`, special tokens are given as their text.
  Detokenizer(const Tokenizer& tokenizer, bool special) : tokenizer_(&tokenizer), special_(special) {}
  /// Appends to `out` what became complete.
  void add(TokenId token, std::string& out);
  /// For engines that answer in text: the same care for split characters.
  void add_bytes(std::string_view bytes, std::string& out);
  /// Ends the stream: what still waits leaves as U+FFFD.
  void finish(std::string& out);

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string held_;
};

}  // namespace kvern::prompt
