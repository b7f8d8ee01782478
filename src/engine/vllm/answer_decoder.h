// Bytes of one streamed answer of vLLM's /v1/completions -> engine events: a plain state machine, the same for every
// split of the bytes. A worker is half trusted: it may serve, lie or fail, so lines, tokens and their ids are bounded,
// and whatever is wrong ends this answer with one Failed and touches no other.
//
//   first tokens       Accepted, then an Output for each event that brought tokens
//   a reason to stop   Finished, once the usage or [DONE] has come, or the stream has ended in order
//   anything else      Failed
//
// The token that stopped an answer (EOS, a stop token) is dropped from the last Output, as the port wants it, but
// counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/vllm/chunk.h"

namespace kvern::engine {

struct AnswerDecoderOptions {
  RequestId id;
  std::string worker;  // for Accepted
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 1;
  std::uint32_t vocab_size = 0;
  std::optional<std::uint32_t> logprobs;
  /// Whether a token ends an answer; empty: only stop reasons say so.
  std::function<bool(TokenId)> is_end;
  /// The worker tells cached tokens: an answer that says nothing of them had none.
  bool tells_cached = false;
  std::size_t line_bytes_max = 1U << 20U;
};

class AnswerDecoder {
 public:
  explicit AnswerDecoder(AnswerDecoderOptions options) : options_(std::move(options)) {}
  /// Takes the next bytes; appends what they make. After over() they are ignored.
  void feed(std::string_view bytes, std::vector<EngineEvent>& out);
  /// The body has ended in order.
  void end(std::vector<EngineEvent>& out);
  /// Breaks it off from outside (deadline, connection); nothing when it is over.
  void fail(Error error, std::vector<EngineEvent>& out);

  /// Finished or Failed has been made.
  bool over() const { return over_; }
  bool failed() const { return failed_; }
  /// Tokens have come, so the request cannot be given to another worker.
  bool began() const { return accepted_; }
  /// Tokens so far, the one that stopped it included.
  std::uint32_t tokens() const { return tokens_; }
  /// What was said of cached tokens; known at the end at the earliest.
  std::optional<std::uint32_t> cached_tokens() const { return cached_; }
  /// The type that a worker gave of its failure, for the log only.
  const std::string& error_type() const { return error_type_; }

 private:
  void hold(std::string_view bytes, std::vector<EngineEvent>& out);
  void take_line(std::string_view line, std::vector<EngineEvent>& out);
  void take_chunk(Chunk& chunk, std::vector<EngineEvent>& out);
  void take_tokens(Chunk& chunk, std::vector<EngineEvent>& out);
  void take_usage(const ChunkUsage& usage);
  bool is_stopper(const Chunk& chunk) const;
  void accept(std::vector<EngineEvent>& out);
  void finish(std::vector<EngineEvent>& out);

  const AnswerDecoderOptions options_;
  std::string held_;            // the beginning of a line
  bool skipping_echo_ = false;  // inside the numbers of prompt_token_ids, which are not kept
  Chunk chunk_;
  std::uint32_t tokens_ = 0;
  std::optional<StopCause> cause_;
  std::optional<std::uint32_t> completion_tokens_;
  std::optional<std::uint32_t> cached_;
  std::string error_type_;
  bool accepted_ = false;
  bool over_ = false;
  bool failed_ = false;
};

}  // namespace kvern::engine
