// Writes down what happens to the blocks of a cache as KV events, in order and short: a block stored right after its
// parent joins the parent's event, blocks removed one after the other share one. One owner; O(1) per block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "kv/block_hash.h"
#include "kv/kv_event.h"

namespace kvern::kv {

class EventLog {
 public:
  explicit EventLog(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  /// The salt of a namespace stands among the extra keys of a prompt's first block, as vLLM has it.
  void stored(std::string_view name_space, std::optional<SequenceHash> parent, SequenceHash name,
              std::span<const TokenId> tokens);
  void removed(SequenceHash name);
  void cleared();

  /// What was written since the last call.
  std::vector<KvEvent> take();

 private:
  const std::uint32_t block_tokens_;
  std::vector<KvEvent> events_;
};

}  // namespace kvern::kv
