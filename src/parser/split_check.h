// For tests and fuzzers of parsers: run one over chunks, bring its pieces into a form that no split changes, check
// their grammar.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "ir/event_grammar.h"
#include "parser/parser.h"

namespace kvern::parser {

/// All pieces of an answer with adjacent deltas joined.
inline std::vector<Piece> run(Parser& parser, const std::vector<std::string>& chunks, bool complete) {
  std::vector<Piece> out;
  std::vector<Piece> fresh;
  const auto take = [&] {
    for (Piece& piece : fresh) {
      if (piece.step == Piece::Step::kDelta && !out.empty() && out.back().step == Piece::Step::kDelta) {
        out.back().text += piece.text;
      } else {
        out.push_back(std::move(piece));
      }
    }
    fresh.clear();
  };
  for (const std::string& chunk : chunks) {
    parser.add(chunk, fresh);
    take();
  }
  parser.finish(complete, fresh);
  take();
  return out;
}

/// What is wrong with the order of pieces, or "".
inline std::string grammar_fault(const std::vector<Piece>& pieces) {
  ir::EventGrammar grammar;
  std::uint32_t index = 0;
  std::optional<std::string> fault = grammar.accept(ir::Start{});
  for (const Piece& piece : pieces) {
    if (fault) break;
    switch (piece.step) {
      case Piece::Step::kStart: fault = grammar.accept(ir::BlockStart{index, piece.kind, "id", piece.name}); break;
      case Piece::Step::kDelta: fault = grammar.accept(ir::BlockDelta{index, piece.text}); break;
      case Piece::Step::kStop: fault = grammar.accept(ir::BlockStop{index++}); break;
    }
  }
  if (!fault) fault = grammar.accept(ir::End{});
  return fault.value_or("");
}

struct Answer {
  std::string text;
  std::string thinking;
  std::vector<ir::ToolCall> calls;
};

inline Answer fold(const std::vector<Piece>& pieces) {
  Answer out;
  for (const Piece& piece : pieces) {
    if (piece.step == Piece::Step::kStart && piece.kind == ir::BlockKind::kToolCall)
      out.calls.push_back({piece.call_id, piece.name, {}});
    if (piece.step != Piece::Step::kDelta) continue;
    switch (piece.kind) {
      case ir::BlockKind::kText: out.text += piece.text; break;
      case ir::BlockKind::kThinking: out.thinking += piece.text; break;
      case ir::BlockKind::kToolCall: out.calls.back().arguments += piece.text; break;
    }
  }
  return out;
}

inline std::vector<std::string> random_split(const std::string& text, Rng& rng) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = 1 + rng.below(12);
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

}  // namespace kvern::parser
