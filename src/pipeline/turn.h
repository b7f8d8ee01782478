// One choice of an answer as a state machine: engine events in, ir events out. Detokenises, cuts at stop strings,
// parses, counts, and finds the text that each token's log probability belongs to. No socket, thread or clock inside;
// the same code serves production, tests and the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "ir/event.h"
#include "ir/event_grammar.h"
#include "parser/parser.h"
#include "pipeline/stop_matcher.h"
#include "pipeline/token_trail.h"
#include "prompt/detokenizer.h"

namespace kvern::pipeline {

struct TurnOptions {
  RequestId id;                                  // the engine's: tool calls are named after it
  const prompt::Tokenizer* tokenizer = nullptr;  // outlives the turn
  std::unique_ptr<parser::Parser> parser;
  std::vector<std::string> stop_strings;
  /// Stop strings count only after this many tokens.
  std::uint32_t min_tokens = 0;
  /// Hand on the log probabilities of visible text. Without them text costs nothing more than its copy.
  bool logprobs = false;
};

/// What a step made.
struct TurnOutput {
  std::vector<ir::Event> events;
  /// A stop string matched: the engine need not go on.
  bool cancel_engine = false;
};

class Turn {
 public:
  explicit Turn(TurnOptions options);
  /// Takes the engine's next event; appends to `out`. After done() everything is ignored.
  void on_engine(const engine::EngineEvent& event, TurnOutput& out);
  /// Breaks off with a failure from elsewhere (deadline, shutdown).
  void fail(Error error, TurnOutput& out);
  bool done() const { return done_; }
  std::uint32_t completion_tokens() const { return usage_.completion_tokens; }

 private:
  void on_output(const engine::Output& output, TurnOutput& out);
  void take_text(const std::string& text, TurnOutput& out);
  void note_token(TokenId token, const engine::TokenLogprob* logprob, std::size_t text_bytes);
  void parse(std::string_view text, TurnOutput& out);
  void take_pieces(TurnOutput& out);
  ir::BlockDelta delta_of(parser::Piece& piece);
  void end(ir::FinishReason reason, std::string stop_string, bool complete, TurnOutput& out);
  void emit(ir::Event event, TurnOutput& out);

  TurnOptions options_;
  prompt::Detokenizer detokenizer_;
  StopMatcher stops_;
  std::vector<parser::Piece> pieces_;
  std::optional<TokenTrail> trail_;
  ir::Usage usage_;
  ir::EventGrammar grammar_;
  std::uint32_t block_ = 0;
  std::uint32_t calls_ = 0;
  std::optional<ir::BlockKind> open_;
  bool thought_ = false;  // the last text went into a thinking block
  bool done_ = false;
};

}  // namespace kvern::pipeline
