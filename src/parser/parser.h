// Model output to typed events. A Parser takes the raw text of one answer in any split and says what each piece is:
// reasoning, text, or a tool call. The split never changes the result, and markup never leaks into text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/event.h"
#include "ir/request.h"

namespace kvern::parser {

/// A piece of output. kStart opens a block (with call id and name for tool calls), kDelta extends it, kStop closes it.
struct Piece {
  enum class Step : std::uint8_t { kStart, kDelta, kStop };
  Step step = Step::kDelta;
  ir::BlockKind kind = ir::BlockKind::kText;
  std::string text;     // kDelta
  std::string call_id;  // kStart of a tool call; empty: the caller mints one
  std::string name;     // kStart of a tool call
  bool operator==(const Piece&) const = default;
};

/// One answer. What is held back is bounded: a marker's beginning and white space before it, and where a family puts
/// the arguments of a call before its name, those, to a bound that the family states.
class Parser {
 public:
  virtual ~Parser() = default;
  /// Appends pieces in order to `out`. `text` is valid UTF-8.
  virtual void add(std::string_view text, std::vector<Piece>& out) = 0;
  /// Ends the answer; `complete` is false when it was cut (length): an unfinished call is then closed as it stands.
  virtual void finish(bool complete, std::vector<Piece>& out) = 0;
};

}  // namespace kvern::parser
