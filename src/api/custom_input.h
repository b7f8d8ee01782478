// The input of a custom tool as its raw text. Models call a custom tool as a function of one string, {"input": "..."};
// this takes the text of those arguments in pieces and gives the string's characters as they become known, so that the
// client sees the tool's input grow and never its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::api {

/// One call. Also taken: a bare string, and anything else, which is then the input as it stands. O(1) a byte; holds
/// back an escape that is not complete and what stands before the string.
class CustomInput {
 public:
  /// Appends to `out` what `piece` tells of the input. Valid UTF-8 in, valid UTF-8 out.
  void add(std::string_view piece, std::string& out);
  /// No more pieces come: what was held back because the form was not clear yet.
  void finish(std::string& out);

 private:
  enum class State : std::uint8_t { kStart, kKey, kInKey, kColon, kValue, kText, kEscape, kUnicode, kDone, kPlain };
  void step(char c, std::string& out);
  void escaped(char c, std::string& out);
  void unicode(char c, std::string& out);
  void lone_surrogate(std::string& out);
  void give_up(std::string& out);

  State state_ = State::kStart;
  std::string held_;        // everything so far, while it is open what it will be
  std::size_t key_at_ = 0;  // how much of the key has matched
  std::uint32_t unit_ = 0;  // of a \u escape
  int digits_ = 0;
  std::uint32_t high_ = 0;  // a surrogate that waits for its other half
};

}  // namespace kvern::api
