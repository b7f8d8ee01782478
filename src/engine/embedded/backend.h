// What the scheduler needs of a model: batches in, tokens out, and cells that can be kept without a sequence. One real
// implementation (llama_backend.h); tests bring a deterministic one. All calls come from the thread that steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "kv/block_tree.h"

namespace kvern::engine {

/// The engine's name of one running request, below the number of sequences it was set up with.
using SequenceId = std::int32_t;

struct BatchToken {
  TokenId token = 0;
  std::int32_t position = 0;
  SequenceId sequence = 0;
  bool sampled = false;  // a token will be drawn after this one
  bool operator==(const BatchToken&) const = default;
};

enum class DecodeStatus : std::uint8_t {
  kOk,
  kFailed,   // nothing or part of the batch is in the cells; remove() what should not be
  kAborted,  // told to stop
};

/// A token, and how likely it was if the request asked.
struct Drawn {
  TokenId token = 0;
  std::optional<TokenLogprob> logprob;
};

/// Draws the tokens of one request: its penalties, its random numbers.
class TokenSampler {
 public:
  virtual ~TokenSampler() = default;
  /// The next token, from the logits after batch token `index` of the last decode. Without `may_stop`, tokens that end
  /// the generation are never drawn. The token counts as generated.
  virtual Drawn sample(std::uint32_t index, bool may_stop) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DecodeStatus decode(std::span<const BatchToken> batch) = 0;
  /// `prompt` is borrowed for the call.
  virtual std::unique_ptr<TokenSampler> make_sampler(const GenerateRequest& request,
                                                     std::span<const TokenId> prompt) = 0;
  /// True for the vocabulary's end-of-generation tokens.
  virtual bool ends_generation(TokenId token) const = 0;

  /// Takes the sequence out of its cells at positions [from, to); to < 0: to the end. False when this memory cannot
  /// forget a part. Cells left without a sequence and not held are free.
  virtual bool remove(SequenceId sequence, std::int32_t from, std::int32_t to) = 0;
  /// Appends the sequence's cells at positions [from, to), in order.
  virtual void cells(SequenceId sequence, std::int32_t from, std::int32_t to, std::vector<kv::CellId>& out) const = 0;
  /// Keeps cells that have content and are not held yet, also when no sequence is left in them.
  virtual void hold(std::span<const kv::CellId> cells) = 0;
  virtual void unhold(std::span<const kv::CellId> cells) = 0;
  /// Puts the sequence into held cells, at the positions they have.
  virtual void attach(SequenceId sequence, std::span<const kv::CellId> cells) = 0;
  /// Appends a copy of what the sequence has at positions [from, its end) to `state`, at most `bytes_max` of it. False:
  /// too much, or this memory cannot (where it cannot forget parts, only from 0); nothing is appended then.
  virtual bool save(SequenceId sequence, std::int32_t from, std::size_t bytes_max, std::vector<std::byte>& state) = 0;
  /// Gives a sequence that ends where the saved positions begin what was saved; there are free cells for it. False: it
  /// could not, and the sequence is as before.
  virtual bool restore(SequenceId sequence, std::span<const std::byte> state) = 0;
  /// Cells with content; nullopt when this memory does not count them.
  virtual std::optional<std::uint32_t> cells_used() const = 0;
};

}  // namespace kvern::engine
