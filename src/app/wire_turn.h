// One answer of `kvern worker`: engine events in, bytes of vLLM's wire out. The raw side of what pipeline::Turn is for
// the chat APIs: tokens and their text as they are, no parser. Lives on one loop; no socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/vllm_wire/completion_answer.h"
#include "api/vllm_wire/completion_request.h"
#include "engine/engine.h"
#include "pipeline/stop_matcher.h"
#include "prompt/detokenizer.h"

namespace kvern::app {

class WireTurn {
 public:
  /// `tokenizer` outlives it. `prompt` is echoed where the call asks for token ids.
  WireTurn(const prompt::Tokenizer& tokenizer, const api::WireCall& call, api::WireHead head, Tokens prompt);

  /// Takes the engine's next event; appends to `out`. The last piece is held until it is known whether it ends the
  /// answer, since vLLM tells the reason with the last token. After done() everything is ignored.
  void take(const engine::EngineEvent& event, std::string& out);
  /// The batch is over: what is held leaves.
  void flush(std::string& out);

  bool done() const { return done_; }
  /// A stop string matched: the engine need not go on.
  bool cancel_engine() const { return cancel_engine_; }
  /// Set when the engine failed; nothing was appended for it.
  const std::optional<Error>& failure() const { return failure_; }
  const api::WireUsage& usage() const { return usage_; }
  bool cut() const { return cut_; }

 private:
  struct Held {
    std::string text;
    Tokens tokens;
    std::vector<api::WireLogprob> logprobs;
  };
  void on_output(const engine::Output& output, std::string& out);
  void on_finished(const engine::Finished& finished, std::string& out);
  /// Adds text that has been made to the held piece; true when a stop string ended the answer.
  bool add_text(const std::string& text, std::string& out);
  void emit(std::string_view finish_reason, const std::string& stop_reason, std::string& out);
  void end(std::string_view finish_reason, const std::string& stop_reason, std::string& out);
  api::WireLogprob wire_logprob(TokenId token, const engine::TokenLogprob& logprob) const;
  std::string token_name(TokenId token) const;

  const prompt::Tokenizer& tokenizer_;
  const bool tokens_as_ids_;
  const bool return_token_ids_;
  const bool include_stop_string_;
  const std::uint32_t min_tokens_;
  const Tokens stop_token_ids_;
  prompt::Detokenizer detokenizer_;
  pipeline::StopMatcher stops_;
  api::WireAnswer answer_;
  api::WireUsage usage_;
  std::optional<Held> held_;
  std::optional<Error> failure_;
  bool done_ = false;
  bool cut_ = false;
  bool cancel_engine_ = false;
};

}  // namespace kvern::app
