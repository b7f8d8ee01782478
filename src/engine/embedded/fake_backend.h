// A Backend for tests: a "model" whose next token is a pure function of all tokens it attends to, read from its cells.
// So a wrong cell, position or order anywhere shows as a wrong answer. It counts as llama.cpp does: cells are found
// first to last, a held one stays, and using one in the wrong state ends the test.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/embedded/backend.h"

namespace kvern::engine {

class FakeBackend final : public Backend {
 public:
  static constexpr TokenId kEnd = 7;
  static constexpr TokenId kVocabulary = 50000;

  explicit FakeBackend(std::uint32_t cells) : cells_(cells) {}

  /// What the model answers to `tokens`; the last of them is the newest.
  static TokenId next_token(std::span<const TokenId> tokens) {
    std::uint64_t state = 0x9E3779B97F4A7C15ULL;
    for (const TokenId token : tokens) state = (state ^ static_cast<std::uint64_t>(token)) * 0x100000001B3ULL;
    return static_cast<TokenId>(100 + (state >> 20U) % (kVocabulary - 100));
  }

  // Switches for tests.
  std::function<bool(std::span<const BatchToken>)> fails;  // true: this decode fails, with half of it in the cells
  std::map<std::size_t, TokenId> answers_at;               // by length of what is attended: the token instead
  bool forgets_parts = true;  // false: remove() of a part is refused, as in recurrent models
  bool counts_cells = true;
  bool restore_fails = false;

  // What happened.
  std::vector<std::vector<BatchToken>> batches;
  std::uint64_t tokens_computed = 0;
  std::uint64_t saves = 0;
  std::uint64_t restores = 0;

  DecodeStatus decode(std::span<const BatchToken> batch) override {
    KV_CHECK(!batch.empty());
    batches.emplace_back(batch.begin(), batch.end());
    results_.assign(batch.size(), std::nullopt);
    const bool failing = fails && fails(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (failing && i >= batch.size() / 2) return DecodeStatus::kFailed;
      const BatchToken& token = batch[i];
      auto& positions = sequences_[token.sequence];
      const auto expected = positions.empty() ? 0 : positions.rbegin()->first + 1;
      KV_CHECK(token.position == expected);
      const kv::CellId cell = free_cell();
      cells_[cell] = Cell{token.token, token.position, {token.sequence}, false};
      positions[token.position] = cell;
      ++tokens_computed;
      if (token.sampled) results_[i] = answer(token.sequence);
    }
    return failing ? DecodeStatus::kFailed : DecodeStatus::kOk;
  }

  std::unique_ptr<TokenSampler> make_sampler(const GenerateRequest& request, std::span<const TokenId>) override {
    return std::make_unique<FixedSampler>(*this, request.logprobs.has_value());
  }
  bool ends_generation(TokenId token) const override { return token == kEnd; }

  bool remove(SequenceId sequence, std::int32_t from, std::int32_t to) override {
    auto& positions = sequences_[sequence];
    if (to < 0) to = positions.empty() ? from : positions.rbegin()->first + 1;
    if (!forgets_parts && from > 0 && from < to) return false;
    for (auto each = positions.lower_bound(from); each != positions.end() && each->first < to;) {
      Cell& cell = *cells_[each->second];
      KV_CHECK(cell.sequences.erase(sequence) == 1);
      if (cell.sequences.empty() && !cell.held) cells_[each->second].reset();
      each = positions.erase(each);
    }
    return true;
  }
  void cells(SequenceId sequence, std::int32_t from, std::int32_t to, std::vector<kv::CellId>& out) const override {
    const auto& positions = sequences_.at(sequence);
    for (auto each = positions.lower_bound(from); each != positions.end() && each->first < to; ++each) {
      out.push_back(each->second);
    }
  }
  void hold(std::span<const kv::CellId> cells) override {
    for (const auto cell : cells) {
      KV_CHECK(cells_[cell] && !cells_[cell]->held);
      cells_[cell]->held = true;
    }
  }
  void unhold(std::span<const kv::CellId> cells) override {
    for (const auto cell : cells) {
      KV_CHECK(cells_[cell] && cells_[cell]->held);
      cells_[cell]->held = false;
      if (cells_[cell]->sequences.empty()) cells_[cell].reset();
    }
  }
  void attach(SequenceId sequence, std::span<const kv::CellId> cells) override {
    for (const auto cell : cells) {
      KV_CHECK(cells_[cell] && cells_[cell]->held);
      KV_CHECK(cells_[cell]->sequences.insert(sequence).second);
      KV_CHECK(sequences_[sequence].emplace(cells_[cell]->position, cell).second);
    }
  }
  bool save(SequenceId sequence, std::int32_t from, std::size_t bytes_max, std::vector<std::byte>& state) override {
    if (!forgets_parts && from > 0) return false;
    const auto& positions = sequences_.at(sequence);
    std::vector<Saved> saved;
    for (auto each = positions.lower_bound(from); each != positions.end(); ++each) {
      saved.push_back({cells_[each->second]->token, each->first});
    }
    const auto bytes = std::as_bytes(std::span(saved));
    if (bytes.size() > bytes_max) return false;
    state.insert(state.end(), bytes.begin(), bytes.end());
    ++saves;
    return true;
  }
  bool restore(SequenceId sequence, std::span<const std::byte> state) override {
    if (restore_fails) return false;
    std::vector<Saved> saved(state.size() / sizeof(Saved));
    std::memcpy(saved.data(), state.data(), state.size());
    auto& positions = sequences_[sequence];
    for (const auto& [token, position] : saved) {
      KV_CHECK(position == (positions.empty() ? 0 : positions.rbegin()->first + 1));
      const kv::CellId cell = free_cell();
      cells_[cell] = Cell{token, position, {sequence}, false};
      positions[position] = cell;
    }
    ++restores;
    return true;
  }
  std::optional<std::uint32_t> cells_used() const override {
    if (!counts_cells) return std::nullopt;
    return static_cast<std::uint32_t>(std::ranges::count_if(cells_, [](const auto& cell) { return cell.has_value(); }));
  }

 private:
  struct Cell {
    TokenId token = 0;
    std::int32_t position = 0;
    std::set<SequenceId> sequences;
    bool held = false;
  };
  struct Saved {
    TokenId token;
    std::int32_t position;
  };
  class FixedSampler final : public TokenSampler {
   public:
    FixedSampler(FakeBackend& backend, bool logprobs) : backend_(backend), logprobs_(logprobs) {}
    Drawn sample(std::uint32_t index, bool may_stop) override {
      KV_CHECK(backend_.results_.at(index).has_value());
      Drawn drawn{.token = *backend_.results_[index], .logprob = {}};
      if (drawn.token == kEnd && !may_stop) ++drawn.token;
      if (logprobs_) drawn.logprob = TokenLogprob{.logprob = -static_cast<float>(drawn.token), .top = {}};
      return drawn;
    }

   private:
    FakeBackend& backend_;
    const bool logprobs_;
  };

  kv::CellId free_cell() const {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!cells_[i]) return static_cast<kv::CellId>(i);
    }
    KV_CHECK(false && "the scheduler gave more tokens than there are cells");
    return 0;
  }
  TokenId answer(SequenceId sequence) const {
    Tokens attended;
    for (const auto& [position, cell] : sequences_.at(sequence)) {
      KV_CHECK(cells_[cell]->position == position && cells_[cell]->sequences.contains(sequence));
      KV_CHECK(position == static_cast<std::int32_t>(attended.size()));
      attended.push_back(cells_[cell]->token);
    }
    const auto fixed = answers_at.find(attended.size());
    return fixed != answers_at.end() ? fixed->second : next_token(attended);
  }

  std::vector<std::optional<Cell>> cells_;
  std::map<SequenceId, std::map<std::int32_t, kv::CellId>> sequences_;
  std::vector<std::optional<TokenId>> results_;
};

}  // namespace kvern::engine
