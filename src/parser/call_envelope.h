// Reads `{"name": ..., "arguments": ...}` as it streams, without a tree: the name once complete, the arguments' exact
// text as it arrives. Holds only keys, names, scalars, and what comes before the name (bounded).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parser/json_string.h"

namespace kvern::parser {

class CallEnvelope {
 public:
  enum class Status : std::uint8_t {
    kMore,    // wants more bytes
    kAngle,   // stopped before a `<` outside strings: not JSON, perhaps a marker
    kEnded,   // the closing brace was taken
    kBroken,  // not JSON, no usable name, or too much before the name; the byte at fault was not taken
  };
  static constexpr std::size_t kHeldMost = 64U << 10U;
  static constexpr std::size_t kNameMost = 512;

  /// Takes bytes from `text[at]` on, behind the opening brace, and moves `at`.
  Status feed(std::string_view text, std::size_t& at);
  /// Bytes without quotes, braces or white space that follow a kAngle stop and were no marker.
  Status literal(std::string_view text);
  /// The end of the answer or a marker: a scalar that was going on is complete.
  void finish();

  bool named() const noexcept { return named_; }
  const std::string& name() const noexcept { return name_; }
  /// Argument text that came since the caller last cleared it.
  std::string& arguments() noexcept { return arguments_; }
  bool has_arguments() const noexcept { return has_arguments_; }
  /// Everything taken so far, as long as there is no name.
  const std::string& raw() const noexcept { return raw_; }

 private:
  enum class State : std::uint8_t { kBeforeKey, kKey, kBeforeColon, kBeforeValue, kName, kText, kNested, kScalar };
  enum class Field : std::uint8_t { kOther, kName, kArguments };

  Status step(char c);
  Status begin_value(char c);
  Status nested(char c);
  void scalar_done();
  Field field() const;
  void keep(char c);

  State state_ = State::kBeforeKey;
  Field field_ = Field::kOther;
  JsonString string_;
  std::string key_;
  std::string name_;
  std::string text_;  // a scalar, or a string given as arguments
  std::string arguments_;
  std::string raw_;
  std::uint32_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool named_ = false;
  bool has_arguments_ = false;
};

}  // namespace kvern::parser
