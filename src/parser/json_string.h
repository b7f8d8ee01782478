// Decodes the inside of a JSON string byte by byte, forgiving as model output needs it: raw line breaks pass, an
// unknown escape gives its letter, half a surrogate pair gives U+FFFD.
#pragma once

#include <cstdint>
#include <string>

namespace kvern::parser {

class JsonString {
 public:
  /// Takes the next byte after the opening quote, appends what is complete to `out`. True at the closing quote, after
  /// which the object is ready for the next string.
  bool step(char c, std::string& out);
  /// True between a backslash and the end of its escape, or between the halves of a pair.
  bool mid_escape() const noexcept { return state_ != State::kPlain || high_ != 0; }

 private:
  enum class State : std::uint8_t { kPlain, kEscape, kHex };
  void unit(std::string& out);
  void drop_half(std::string& out);
  State state_ = State::kPlain;
  std::uint8_t digits_ = 0;
  std::uint16_t unit_ = 0;
  std::uint16_t high_ = 0;
};

}  // namespace kvern::parser
