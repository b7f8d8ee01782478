#include "parser/plain.h"

#include "parser/block_writer.h"

namespace kvern::parser {
namespace {

class PlainParser final : public Parser {
 public:
  void add(std::string_view text, std::vector<Piece>& out) override { writer_.text(ir::BlockKind::kText, text, out); }
  void finish(bool, std::vector<Piece>& out) override { writer_.close(out); }

 private:
  BlockWriter writer_;
};

}  // namespace

std::unique_ptr<Parser> make_plain_parser() { return std::make_unique<PlainParser>(); }

}  // namespace kvern::parser
