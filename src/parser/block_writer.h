// Writes pieces so that blocks pair up: opens on the first text, closes on a change of kind, joins deltas of one call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parser/parser.h"

namespace kvern::parser {

class BlockWriter {
 public:
  /// Text or reasoning; opens a block of `kind` if none such is open.
  void text(ir::BlockKind kind, std::string_view text, std::vector<Piece>& out);
  void open_call(std::string name, std::vector<Piece>& out);
  /// Of the open call.
  void arguments(std::string_view text, std::vector<Piece>& out);
  /// Closes what is open, if anything.
  void close(std::vector<Piece>& out);

 private:
  void delta(std::string_view text, std::vector<Piece>& out);
  bool open_ = false;
  ir::BlockKind kind_ = ir::BlockKind::kText;
};

}  // namespace kvern::parser
