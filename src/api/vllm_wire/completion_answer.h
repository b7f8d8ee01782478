// Answers of vLLM 0.32's /v1/completions, byte for byte in its shape (completion_answer_test holds them to a recorded
// server): one event a piece, or one document.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace kvern::api {

/// What all objects of an answer repeat.
struct WireHead {
  std::string id;  // "cmpl-…"
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

struct WireAnswerOptions {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool logprobs = false;
  /// Usage with cached tokens in the first event, for who may break off before the last. vLLM has no such thing.
  bool early_usage = false;
};

struct WireLogprob {
  std::string token;
  float logprob = 0;
  std::vector<std::pair<std::string, float>> top;  // each token once
};

/// New text and tokens; with a reason it is the last.
struct WirePiece {
  std::string_view text;  // whole UTF-8
  std::span<const TokenId> tokens;
  std::span<const WireLogprob> logprobs;
  std::string_view finish_reason;  // "stop", "length"; empty: it goes on
  std::string stop_reason;         // JSON; empty: null
};

struct WireUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::optional<std::uint32_t> cached_tokens;
};

/// Used by one thread.
class WireAnswer {
 public:
  /// `prompt` is echoed where token ids are asked for.
  WireAnswer(WireHead head, WireAnswerOptions options, Tokens prompt);
  /// Streaming: appends an event. Whole: collects.
  void piece(const WirePiece& piece, const WireUsage& so_far, std::string& out);
  /// After the last piece. Streaming: the usage where it is asked for, and [DONE]. Whole: the document.
  void end(const WireUsage& usage, std::string& out);
  /// A failure after the stream began.
  static void fail(const Error& error, std::string& out);

 private:
  void append_logprobs(const WirePiece& piece);

  const WireHead head_;
  const WireAnswerOptions options_;
  Tokens prompt_;
  bool usage_due_;      // early, and not told yet
  std::string prefix_;  // {"id": … up to "choices":
  std::size_t text_offset_ = 0;
  // The lists of the logprobs object; of one event, or of all.
  std::string offsets_, token_logprobs_, tokens_, tops_;
  // Whole answers only.
  std::string text_;
  std::string token_ids_;
  std::string finish_reason_;
  std::string stop_reason_;
};

}  // namespace kvern::api
