#include "sim/sim_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace kvern::sim {

using engine::BatchToken;
using engine::DecodeStatus;
using engine::SequenceId;

class SimBackend::Sampler final : public engine::TokenSampler {
 public:
  explicit Sampler(const SimBackend& backend) : backend_(backend) {}
  engine::Drawn sample(std::uint32_t index, bool may_stop) override {
    const auto& result = backend_.results_.at(index);
    KV_CHECK(result.has_value());
    return {next_token(*result, may_stop), std::nullopt};
  }

 private:
  const SimBackend& backend_;
};

SimBackend::SimBackend(std::uint32_t cells, std::uint32_t sequences) : cells_(cells), sequences_(sequences) {
  free_.reserve(cells);
  for (std::uint32_t cell = cells; cell > 0; --cell) free_.push_back(cell - 1);
}

SimBackend::Work SimBackend::take_work() { return std::exchange(work_, {}); }

std::unique_ptr<engine::TokenSampler> SimBackend::make_sampler(const engine::GenerateRequest&,
                                                               std::span<const TokenId>) {
  return std::make_unique<Sampler>(*this);
}

DecodeStatus SimBackend::decode(std::span<const BatchToken> batch) {
  KV_CHECK(!batch.empty());
  results_.assign(batch.size(), std::nullopt);
  const bool fails = failing_ > 0;
  if (fails) --failing_;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (fails && i >= batch.size() / 2) return DecodeStatus::kFailed;
    const BatchToken& token = batch[i];
    // One token of a sequence alone is a decode, more are a prefill.
    const bool alone = (i == 0 || batch[i - 1].sequence != token.sequence) &&
                       (i + 1 == batch.size() || batch[i + 1].sequence != token.sequence);
    ++(alone ? work_.decode_tokens : work_.prefill_tokens);
    place(token);
    const Sequence& its = sequence(token.sequence);
    const ModelState read_so_far = cells_[its.cells.back()].after;
    if (token.sampled) results_[i] = its.broken ? ~read_so_far : read_so_far;
  }
  return fails ? DecodeStatus::kFailed : DecodeStatus::kOk;
}

void SimBackend::place(const BatchToken& token) {
  Sequence& its = sequence(token.sequence);
  KV_CHECK(token.position == static_cast<std::int32_t>(its.cells.size()));
  const ModelState before = its.cells.empty() ? kNothingRead : cells_[its.cells.back()].after;
  append(its, {before, read(before, token.token)});
}

void SimBackend::append(Sequence& its, const Saved& read_here) {
  KV_CHECK(!free_.empty());
  const kv::CellId cell = free_.back();
  free_.pop_back();
  cells_[cell] = Cell{.position = static_cast<std::int32_t>(its.cells.size()),
                      .sequences = 1,
                      .held = false,
                      .before = read_here.before,
                      .after = read_here.after};
  its.cells.push_back(cell);
}

bool SimBackend::remove(SequenceId id, std::int32_t from, std::int32_t to) {
  Sequence& its = sequence(id);
  const std::size_t end = to < 0 ? its.cells.size() : std::min(its.cells.size(), static_cast<std::size_t>(to));
  for (auto position = static_cast<std::size_t>(from); position < end; ++position) {
    const kv::CellId cell = std::exchange(its.cells[position], kNoCell);
    if (cell == kNoCell) continue;
    --cells_[cell].sequences;
    free_if_unused(cell);
  }
  while (!its.cells.empty() && its.cells.back() == kNoCell) its.cells.pop_back();
  if (its.cells.empty()) its.broken = false;
  return true;
}

void SimBackend::cells(SequenceId id, std::int32_t from, std::int32_t to, std::vector<kv::CellId>& out) const {
  const auto& its = sequences_.at(static_cast<std::size_t>(id)).cells;
  for (auto position = static_cast<std::size_t>(from); position < static_cast<std::size_t>(to); ++position) {
    if (position < its.size() && its[position] != kNoCell) out.push_back(its[position]);
  }
}

void SimBackend::hold(std::span<const kv::CellId> cells) {
  for (const auto cell : cells) {
    KV_CHECK(cells_.at(cell).sequences > 0 && !cells_[cell].held);
    cells_[cell].held = true;
  }
}

void SimBackend::unhold(std::span<const kv::CellId> cells) {
  for (const auto cell : cells) {
    KV_CHECK(cells_.at(cell).held);
    cells_[cell].held = false;
    free_if_unused(cell);
  }
}

void SimBackend::attach(SequenceId id, std::span<const kv::CellId> cells) {
  Sequence& its = sequence(id);
  for (const auto cell : cells) {
    KV_CHECK(cells_.at(cell).held);
    const auto position = static_cast<std::size_t>(cells_[cell].position);
    if (its.cells.size() <= position) its.cells.resize(position + 1, kNoCell);
    KV_CHECK(its.cells[position] == kNoCell);
    its.cells[position] = cell;
    ++cells_[cell].sequences;
  }
  if (cells.empty()) return;
  // These must follow what stands before them, and what stands after must follow these.
  const auto first = static_cast<std::size_t>(cells_[cells.front()].position);
  for (std::size_t position = first; position <= first + cells.size(); ++position) {
    if (!follows(its, position)) its.broken = true;
  }
}

bool SimBackend::follows(const Sequence& its, std::size_t position) const {
  if (position >= its.cells.size()) return true;  // nothing there yet
  if (its.cells[position] == kNoCell) return false;
  if (position == 0) return cells_[its.cells[0]].before == kNothingRead;
  const kv::CellId previous = its.cells[position - 1];
  return previous != kNoCell && cells_[its.cells[position]].before == cells_[previous].after;
}

bool SimBackend::save(SequenceId id, std::int32_t from, std::size_t bytes_max, std::vector<std::byte>& state) {
  const Sequence& its = sequence(id);
  const auto saved = std::span(its.cells).subspan(static_cast<std::size_t>(from));
  if (its.broken || saved.size() * sizeof(Saved) > bytes_max) return false;
  for (const auto cell : saved) {
    KV_CHECK(cell != kNoCell);
    const Saved each{cells_[cell].before, cells_[cell].after};
    const auto bytes = std::as_bytes(std::span(&each, 1));
    state.insert(state.end(), bytes.begin(), bytes.end());
  }
  return true;
}

bool SimBackend::restore(SequenceId id, std::span<const std::byte> state) {
  Sequence& its = sequence(id);
  const std::size_t first = its.cells.size();
  for (; !state.empty(); state = state.subspan(sizeof(Saved))) {
    Saved each;
    std::memcpy(&each, state.data(), sizeof(each));
    append(its, each);
  }
  if (!follows(its, first)) its.broken = true;  // it was saved behind something else
  return true;
}

SimBackend::Sequence& SimBackend::sequence(SequenceId id) { return sequences_.at(static_cast<std::size_t>(id)); }

void SimBackend::free_if_unused(kv::CellId cell) {
  if (cells_[cell].sequences == 0 && !cells_[cell].held) free_.push_back(cell);
}

}  // namespace kvern::sim
