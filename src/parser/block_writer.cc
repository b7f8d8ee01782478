#include "parser/block_writer.h"

#include <utility>

#include "base/check.h"

namespace kvern::parser {

void BlockWriter::text(ir::BlockKind kind, std::string_view text, std::vector<Piece>& out) {
  if (text.empty()) return;
  if (!open_ || kind_ != kind) {
    close(out);
    open_ = true;
    kind_ = kind;
    out.push_back({Piece::Step::kStart, kind, {}, {}, {}});
  }
  delta(text, out);
}

void BlockWriter::open_call(std::string name, std::vector<Piece>& out) {
  close(out);
  open_ = true;
  kind_ = ir::BlockKind::kToolCall;
  out.push_back({Piece::Step::kStart, kind_, {}, {}, std::move(name)});
}

void BlockWriter::arguments(std::string_view text, std::vector<Piece>& out) {
  KV_CHECK(open_ && kind_ == ir::BlockKind::kToolCall);
  if (!text.empty()) delta(text, out);
}

void BlockWriter::close(std::vector<Piece>& out) {
  if (!open_) return;
  open_ = false;
  out.push_back({Piece::Step::kStop, kind_, {}, {}, {}});
}

void BlockWriter::delta(std::string_view text, std::vector<Piece>& out) {
  if (!out.empty() && out.back().step == Piece::Step::kDelta) {
    out.back().text += text;
  } else {
    out.push_back({Piece::Step::kDelta, kind_, std::string(text), {}, {}});
  }
}

}  // namespace kvern::parser
