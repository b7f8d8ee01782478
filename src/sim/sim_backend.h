// The Backend of simulated engines: cells like llama.cpp's, and the model of sim_model.h read from them. Each cell
// keeps what was read up to it, so a decode costs O(1) a token; a sequence whose cells do not follow one another gives
// garbage ever after, as a real model would. What the scheduler must never do ends the process (KV_CHECK).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/embedded/backend.h"
#include "sim/sim_model.h"

namespace kvern::sim {

class SimBackend final : public engine::Backend {
 public:
  SimBackend(std::uint32_t cells, std::uint32_t sequences);

  /// The next `decodes` calls of decode fail, with half of the batch in the cells.
  void fail_decodes(std::uint32_t decodes) { failing_ = decodes; }
  /// What decode was given since the last call of this.
  struct Work {
    std::uint32_t prefill_tokens = 0;
    std::uint32_t decode_tokens = 0;
  };
  Work take_work();

  engine::DecodeStatus decode(std::span<const engine::BatchToken> batch) override;
  std::unique_ptr<engine::TokenSampler> make_sampler(const engine::GenerateRequest& request,
                                                     std::span<const TokenId> prompt) override;
  bool ends_generation(TokenId token) const override { return token == kEndToken; }
  bool remove(engine::SequenceId sequence, std::int32_t from, std::int32_t to) override;
  void cells(engine::SequenceId sequence, std::int32_t from, std::int32_t to,
             std::vector<kv::CellId>& out) const override;
  void hold(std::span<const kv::CellId> cells) override;
  void unhold(std::span<const kv::CellId> cells) override;
  void attach(engine::SequenceId sequence, std::span<const kv::CellId> cells) override;
  bool save(engine::SequenceId sequence, std::int32_t from, std::size_t bytes_max,
            std::vector<std::byte>& state) override;
  bool restore(engine::SequenceId sequence, std::span<const std::byte> state) override;
  std::optional<std::uint32_t> cells_used() const override {
    return static_cast<std::uint32_t>(cells_.size() - free_.size());
  }

 private:
  static constexpr kv::CellId kNoCell = ~kv::CellId{0};
  struct Cell {
    std::int32_t position = 0;
    std::uint32_t sequences = 0;
    bool held = false;
    ModelState before = 0;  // what was read up to the token before it
    ModelState after = 0;
  };
  /// A cell outside the pool.
  struct Saved {
    ModelState before = 0;
    ModelState after = 0;
  };
  struct Sequence {
    std::vector<kv::CellId> cells;  // by position
    bool broken = false;            // its cells did not follow one another
  };
  class Sampler;

  Sequence& sequence(engine::SequenceId id);
  void place(const engine::BatchToken& token);
  void append(Sequence& sequence, const Saved& read);
  void free_if_unused(kv::CellId cell);
  /// Whether the cell at `position` continues the one before it.
  bool follows(const Sequence& sequence, std::size_t position) const;

  std::vector<Cell> cells_;
  std::vector<kv::CellId> free_;
  std::vector<Sequence> sequences_;
  std::vector<std::optional<ModelState>> results_;  // by index in the last batch
  std::uint32_t failing_ = 0;
  Work work_;
};

}  // namespace kvern::sim
